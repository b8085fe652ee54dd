"""How a controller that takes too long is stopped."""

from __future__ import annotations

import signal
import threading
from time import perf_counter
from types import FrameType
from typing import Any

from mosaic.core.errors import MosaicError


class TimeLimitError(MosaicError):
    """An answer took longer than its time limit."""


class Watch:
    """Measures every answer, and breaks one that hangs.

    A timer looks a few times per limit whether the answer under way is overdue and raises in the main thread, so the
    loop pays for two readings of the clock only. In other threads, and while C code never returns to the interpreter,
    an overrun can be seen only afterwards.
    """

    def __init__(self, shortest_limit_s: float | None) -> None:
        self._tick_s = None if shortest_limit_s is None else max(shortest_limit_s / 4, 0.01)
        self._asked_at = 0.0
        self._limit_s: float | None = None
        self._earlier: tuple[Any, tuple[float, float]] | None = None

    def __enter__(self) -> Watch:
        free = threading.current_thread() is threading.main_thread() and signal.getitimer(signal.ITIMER_REAL)[0] == 0
        if self._tick_s is not None and free:
            handler = signal.signal(signal.SIGALRM, self._look)
            self._earlier = handler, signal.setitimer(signal.ITIMER_REAL, self._tick_s, self._tick_s)
        return self

    def __exit__(self, *_: object) -> None:
        if self._earlier is not None:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._earlier[0])
            self._earlier = None

    def ask(self, limit_s: float | None) -> None:
        """An answer is asked for now."""
        self._limit_s = limit_s
        self._asked_at = perf_counter()

    def answered(self) -> None:
        took_s, limit_s = perf_counter() - self._asked_at, self._limit_s
        self._limit_s = None
        if limit_s is not None and took_s > limit_s:
            raise TimeLimitError(f"took {took_s:.3g} s; its time limit is {limit_s:g} s")

    def _look(self, signum: int, frame: FrameType | None) -> None:
        limit_s = self._limit_s
        # half a tick of grace: an engine's own deadline at the same limit knows more about what went wrong
        if limit_s is not None and perf_counter() - self._asked_at > limit_s + (self._tick_s or 0.0) / 2:
            self._limit_s = None
            raise TimeLimitError(f"did not answer within its time limit of {limit_s:g} s")
