"""Time that this process spends on compiling machine code.

It is spent once, at first use after an installation or upgrade, and says nothing about how fast a run trains. Screens
show it for what it is, and speeds leave it out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple


class Compilation(NamedTuple):
    """Progress of compiling: `function` is under way."""

    functions: int
    seconds: float
    function: str

    def __str__(self) -> str:
        return (
            f"compiling machine code ({self.functions} functions, {self.seconds:.0f} s so far); "
            "later runs find it in the cache"
        )


class CompileTimer:
    """Counts functions and seconds. numba compiles one function at a time, and those that it calls within."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._names: list[str] = []  # the function under way, and those within it
        self._functions = 0
        self._earlier_s = 0.0
        self._began_s: float | None = None
        self.on_first: Callable[[], None] | None = None  # called when the first function is about to be compiled

    @contextmanager
    def compiling(self, function: str) -> Iterator[None]:
        self.begin(function)
        try:
            yield
        finally:
            self.end()

    def begin(self, function: str) -> None:
        if not self._functions and self.on_first is not None:
            self.on_first()
        if not self._names:
            self._began_s = self._clock()
        self._names.append(function)
        self._functions += 1

    def end(self) -> None:
        self._names.pop()
        if not self._names:
            self._earlier_s, self._began_s = self.seconds(), None

    def seconds(self) -> float:
        """Return the seconds spent so far, those of a function under way included."""
        began_s = self._began_s
        return self._earlier_s + (0.0 if began_s is None else self._clock() - began_s)

    def current(self) -> Compilation | None:
        """Return what is being compiled at this moment."""
        names = tuple(self._names)
        return Compilation(self._functions, self.seconds(), names[0]) if names else None


timer = CompileTimer()  # of this process


def working_time() -> float:
    """Return `perf_counter()` without the time that compiling took: it stands still meanwhile."""
    return perf_counter() - timer.seconds()
