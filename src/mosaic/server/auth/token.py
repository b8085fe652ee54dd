"""Token for access to a store's server: a file that only its owner can read."""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from pathlib import Path

from mosaic.core.errors import InputError, MosaicError
from mosaic.store.atomic import private_folder, write_once

COOKIE = "mosaic_token"


def token_file(home: Path) -> Path:
    return home / "token"


def ensure_token(home: Path) -> str:
    """Return the store's token; create it if missing. Several servers that start at once all get the same one."""
    private_folder(home)
    path = token_file(home)
    if not path.exists():
        write_once(path, f"{secrets.token_urlsafe(32)}\n".encode(), 0o600)
    return read_token(home)


def read_token(home: Path) -> str:
    path = token_file(home)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError as error:
        raise InputError(
            f"There is no token in '{path}': no server has used this store yet. Type: mosaic serve"
        ) from error
    except OSError as error:
        raise MosaicError(f"The token in '{path}' cannot be read: {error.strerror}.") from error
    with open(descriptor, encoding="ascii", errors="replace") as file:
        facts = os.fstat(descriptor)
        if stat.S_IMODE(facts.st_mode) & 0o077 or facts.st_uid != os.geteuid():
            raise MosaicError(
                f"Others may read or own the token in '{path}', so it is not secret. "
                "Delete that file; the next `mosaic serve` makes a new one."
            )
        token = file.read().strip()
    if len(token) < 16:
        raise MosaicError(f"'{path}' contains no token. Delete it; the next `mosaic serve` makes a new one.")
    return token


def same_secret(one: str, other: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "surrogateescape"), other.encode("utf-8", "surrogateescape"))
