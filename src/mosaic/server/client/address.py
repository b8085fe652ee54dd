"""Address and token of a server."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

from mosaic.core.errors import InputError
from mosaic.server.auth.hosts import is_loopback
from mosaic.server.auth.token import read_token
from mosaic.store.store import home as default_home

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8642
TOKEN_VARIABLE = "MOSAIC_TOKEN"


def find_token(url: str, token: str | None = None, home: Path | None = None) -> str:
    """Return the given token, else $MOSAIC_TOKEN, else that of this user's store, which is only for local servers."""
    found = token or os.environ.get(TOKEN_VARIABLE)
    if found:
        return _sendable(found)
    if is_local(url):
        return read_token(default_home() if home is None else home)
    raise InputError(
        f"'{url}' wants a token: set {TOKEN_VARIABLE} to what the file 'token' in the server's $MOSAIC_HOME holds."
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


def _sendable(token: str) -> str:
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError("The token has invalid characters; was it copied completely?")
    return token
