"""How a Ctrl-C is not lost: compiled code that calls back into Python may swallow its KeyboardInterrupt.

Pydantic does where it asks whether something is an instance. So the signal is remembered too, and whoever waits in a
loop asks `raise_if_pressed` at every turn.
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
    """Inside, a Ctrl-C is raised as always and remembered until the block is left.

    Elsewhere than in the main thread, or under somebody else's rules for the signal, nothing is changed.
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
    """For loops that wait in the main thread."""
    if _pressed.is_set() and threading.current_thread() is threading.main_thread():
        raise KeyboardInterrupt


def _remember(number: int, frame: FrameType | None) -> None:
    del number, frame
    _pressed.set()
    raise KeyboardInterrupt
