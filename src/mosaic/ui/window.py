"""Display of the user: its detection, pages in a browser, and a window for them.

The window has its own process, as window toolkits need the main thread.
"""

from __future__ import annotations

import html
import os
import subprocess
import sys
import tempfile
import threading
import webbrowser
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Self

from mosaic.core.child_process import module_command
from mosaic.core.errors import InputError, MosaicError
from mosaic.server.serve import Listening

INSTEAD = "Open the page in a browser instead: mosaic serve"
PROGRAM = module_command("mosaic.ui.window")
_PATIENCE_S = 5.0


def has_display() -> bool:
    always = sys.platform in ("darwin", "win32")
    return always or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def open_browser(address: str, until: ExitStack) -> bool:
    """Open a page and return whether that worked; a browser in the terminal does not count, as it cannot show a board.

    The address may hold a token, and the process list shows a browser's arguments to every user: so the browser is
    given a file that only this user can read, and that redirects to the address. `until` removes it.
    """
    if not has_display():
        return False
    folder = until.enter_context(tempfile.TemporaryDirectory(prefix="mosaic-", ignore_cleanup_errors=True))
    return webbrowser.open(_redirect_page(Path(folder), address).as_uri())


def _redirect_page(folder: Path, address: str) -> Path:
    """Write the page into a folder that is readable only by its owner."""
    path = folder / "open.html"
    target = html.escape(address, quote=True)
    path.write_text(
        f'<!doctype html><meta http-equiv="refresh" content="0; url={target}"><a href="{target}">Mosaic</a>\n'
    )
    return path


def require_window() -> None:
    """Raise InputError if no window can open, before anything is started."""
    if find_spec("webview") is None:
        raise InputError(f"A window needs pywebview: pip install 'mosaic-rl[window]'. {INSTEAD}")
    if not has_display():
        raise InputError(f"No window can open here: neither DISPLAY nor WAYLAND_DISPLAY is set. {INSTEAD}")


class Window:
    """Window that ends the server when it is closed, and is closed when the server ends."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._watch: threading.Thread | None = None
        self._said = ""

    def show(self, listening: Listening) -> None:
        self._process = subprocess.Popen(PROGRAM, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._watch = threading.Thread(target=self._wait, args=(self._process, listening), name="window")
        self._watch.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is None or self._watch is None:
            return
        by_itself = self._process.poll() is not None
        if not by_itself:
            self._process.terminate()
        self._watch.join(_PATIENCE_S)
        if by_itself and self._process.returncode and kind is None:
            raise MosaicError(f"No window can open here: {_last_line(self._said)} {INSTEAD}")

    def _wait(self, process: subprocess.Popen[str], listening: Listening) -> None:
        self._said = process.communicate(listening.link("/"))[1]  # the link holds the token, so it is not an argument
        listening.end()


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else "the window's process ended without a message."


def main(address: str) -> None:
    import webview

    webview.create_window("Mosaic", address, width=1440, height=900, min_size=(390, 600))
    webview.start(private_mode=False)


if __name__ == "__main__":
    main(sys.stdin.read())
