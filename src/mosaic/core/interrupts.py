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


@contextmanager
def ctrl_c_deferred() -> Iterator[None]:
    """Hold a Ctrl-C back until the block ends, so that what the block starts is known to the code that handles it.

    Does nothing outside the main thread. Processes started meanwhile do not inherit it.
    """
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    pressed = threading.Event()
    signal.signal(signal.SIGINT, lambda number, frame: pressed.set())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed.is_set():
        signal.raise_signal(signal.SIGINT)


def raise_if_pressed() -> None:
    """Raise KeyboardInterrupt after a Ctrl-C; for loops that wait in the main thread."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    del number, frame
    _pressed.set()
    raise KeyboardInterrupt
