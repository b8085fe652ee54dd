"""Ctrl-C handling that survives compiled code, which may swallow KeyboardInterrupt when it calls back into Python.

Pydantic does so in instance checks. The signal is therefore remembered too, and loops that wait call `raise_if_pressed`
in every iteration.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_pressed = threading.Event()


@contextmanager
def ctrl_c_kept() -> Iterator[None]:
    """Remember a Ctrl-C until the block ends, in addition to raising it as usual.

    Does nothing outside the main thread, or where SIGINT already has another handler.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _remember)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _pressed.clear()


def raise_if_pressed() -> None:
    """Raise KeyboardInterrupt after a Ctrl-C; for loops that wait in the main thread."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    del number, frame
    _pressed.set()
    raise KeyboardInterrupt
