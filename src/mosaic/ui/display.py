"""Display detection, and opening a page in the user's browser."""

from __future__ import annotations

import html
import os
import sys
import tempfile
import webbrowser
from pathlib import Path


def has_display() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> bool:
    """Open a page and return whether that worked; a browser in the terminal does not count, as it cannot show a board.

    The address may hold a token, and the process list shows a browser's arguments to every user: so the browser is
    given a file that only this user can read, and that redirects to the address.
    """
    return has_display() and webbrowser.open(_redirect_page(address).as_uri())


def _redirect_page(address: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="mosaic-"))  # readable only by its owner
    path = folder / "open.html"
    target = html.escape(address, quote=True)
    path.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Mosaic</a>\n'
    )
    return path
