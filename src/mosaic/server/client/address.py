"""Address and token of a server."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from mosaic.core.errors import InputError, MosaicError
from mosaic.server.auth.hosts import is_loopback
from mosaic.server.auth.token import read_token
from mosaic.store.store import home as default_home

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8642
TOKEN_VARIABLE = "MOSAIC_TOKEN"


def find_token(url: str, token: str | None = None, home: Path | None = None) -> str:
    """Return the token for a server that the user has named: the given one, $MOSAIC_TOKEN_HOST or $MOSAIC_TOKEN.

    Without these it is that of this user's store, which is only for local servers.
    """
    return _first_token(url, TOKEN_VARIABLE, [known_token(url, token)], home)


def known_token(url: str, token: str | None = None) -> str | None:
    """Return the given token or that of the environment for a server that the user has named, if there is one."""
    found = next((each for each in (token, *_environ(token_variable(url), TOKEN_VARIABLE)) if each), None)
    return None if found is None else sendable(found)


def find_reference_token(url: str) -> str:
    """Return the token for a server that a policy reference names: $MOSAIC_TOKEN_HOST, or on this machine the store's.

    A reference may come from a configuration or a run of others, so $MOSAIC_TOKEN, which may belong to another server,
    is never sent there.
    """
    variable = token_variable(url)
    return _first_token(url, variable, _environ(variable))


def token_variable(url: str) -> str:
    """Return the variable that holds the token of a host: http://gpu-box:9000 → MOSAIC_TOKEN_GPU_BOX."""
    return f"{TOKEN_VARIABLE}_{re.sub('[^A-Z0-9]', '_', (urlsplit(url).hostname or '').upper())}"


def _environ(*names: str) -> tuple[str | None, ...]:
    return tuple(map(os.environ.get, names))


def _first_token(url: str, variable: str, known: Iterable[str | None], home: Path | None = None) -> str:
    for token in known:
        if token:
            return sendable(token)
    if is_local(url):
        return read_token(default_home() if home is None else home)
    raise InputError(
        f"'{url}' requires a token: set {variable} to what the file 'token' in the server's $MOSAIC_HOME holds."
    )


def is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def check_url(url: str) -> str:
    """Return `http://HOST:PORT`, without a trailing slash."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.username is not None or parts.query or parts.fragment:
        raise InputError(f"'{url}' is not the address of a server. Type http://HOST:PORT or ssh://HOST.")
    return url.rstrip("/")


def sendable(token: str) -> str:
    """Check that a header can carry the token."""
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError("The token has invalid characters; was it copied completely?")
    return token


class UnreachableError(MosaicError):
    """Error for a server that does not respond."""
