"""Life of the terminal app: its backend, signals, and the terminal as it was before."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from mosaic.core.errors import InputError
from mosaic.core.system import wait_for_hangup
from mosaic.ui.tui.app import MosaicTui
from mosaic.ui.tui.backend.protocol import AppBackend

STDIN = 0  # descriptor of the terminal; while the app runs, sys.stdout is Textual's and has none


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

    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave, int(number))
    threading.Thread(target=_end_with_terminal, name="terminal", daemon=True).start()
    await app.run_async()


def _end_with_terminal() -> None:
    """Wait until the other side of the terminal has closed it, and end the process; runs continue without it.

    The app itself may then wait forever for a terminal that takes its output, whether a signal arrived before or not.
    """
    wait_for_hangup(STDIN)
    os._exit(128 + signal.SIGHUP)
