"""Timer for the compilation of machine code in this process.

Code is compiled once, at first use after an installation or upgrade, so this time says nothing about how fast a run
trains. Screens show it separately, and speeds exclude it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import NamedTuple


class Compilation(NamedTuple):
    """Progress of compilation; `function` is being compiled."""

    functions: int
    seconds: float
    function: str

    def __str__(self) -> str:
        return (
            f"compiling machine code ({self.functions} function{'' if self.functions == 1 else 's'}, "
            f"{self.seconds:.0f} s so far); "
            "later runs find it in the cache"
        )


class CompileTimer:
    """Counter of compiled functions and seconds.

    numba compiles one function at a time, nested with the functions that it calls.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._names: list[str] = []  # the function being compiled, and those nested in it
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
        """Return the seconds spent so far, including the function being compiled."""
        began_s = self._began_s
        return self._earlier_s + (0.0 if began_s is None else self._clock() - began_s)

    def current(self) -> Compilation | None:
        """Return the progress of the compilation under way; None when nothing is being compiled."""
        names = tuple(self._names)
        return Compilation(self._functions, self.seconds(), names[0]) if names else None


timer = CompileTimer()  # one per process


def working_time() -> float:
    """Return `perf_counter()` minus the time spent compiling."""
    return perf_counter() - timer.seconds()
