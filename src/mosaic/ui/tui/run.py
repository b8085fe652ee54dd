"""Life of the terminal app: its backend, signals, and the terminal as it was before."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from mosaic.core.errors import InputError
from mosaic.ui.tui.app import MosaicTui
from mosaic.ui.tui.backend.protocol import AppBackend


def run_tui(server: str | None) -> int:
    """Run the app until it is quit; return the exit code."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise InputError("mosaic tui needs a terminal. Over ssh, ask for one: ssh -t HOST mosaic tui")

    for name in ("COLUMNS", "LINES"):  # a shell may export them; they would hide every change of the terminal's size
        os.environ.pop(name, None)

    def say(text: str) -> None:
        app.call_from_thread(app.say, text, "warning")  # the backend is only used in threads

    with _backend(server, say) as backend:
        app = MosaicTui(backend)
        asyncio.run(_run(app))
    return app.return_code or 0


@contextmanager
def _backend(server: str | None, say: Callable[[str], None]) -> Iterator[AppBackend]:
    if server is None:
        from mosaic.ui.tui.backend.local import LocalBackend

        yield LocalBackend(say)
        return
    from mosaic.server.client.client import Client
    from mosaic.ui.tui.backend.remote import RemoteBackend

    with Client(server) as client:
        client.health()  # a wrong address or token is reported before the screen changes
        yield RemoteBackend(client)


async def _run(app: MosaicTui) -> None:
    """Run the app; a request to end it restores the terminal as its own quitting does."""
    loop = asyncio.get_running_loop()

    def leave(number: int) -> None:
        app.exit(return_code=128 + number)

    def hang_up(number: int, frame: FrameType | None) -> None:
        if is_gone(sys.stdout.fileno()):
            os._exit(128 + number)  # the app waits for a terminal that takes its output; runs continue without it
        loop.call_soon_threadsafe(leave, number)

    loop.add_signal_handler(signal.SIGTERM, leave, int(signal.SIGTERM))
    signal.signal(signal.SIGHUP, hang_up)  # not through the loop, which may be the one that waits
    await app.run_async()


def is_gone(terminal: int) -> bool:
    """Return whether the other side of a terminal has closed it."""
    try:
        termios.tcgetattr(terminal)
    except termios.error:
        return True
    return False
