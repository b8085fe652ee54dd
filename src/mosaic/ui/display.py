"""Whether this machine can show something beside the terminal, and a page in the user's browser."""

from __future__ import annotations

import os
import sys
import webbrowser


def has_display() -> bool:
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str) -> bool:
    """False where there is none. A browser in the terminal does not count: it cannot show a board."""
    return has_display() and webbrowser.open(address)
