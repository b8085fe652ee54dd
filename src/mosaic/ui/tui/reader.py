"""Readers: threads that read in the background and post a message when something has changed; the newest value wins."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

from textual.message import Message
from textual.widget import Widget

from mosaic.core.errors import MosaicError

T = TypeVar("T")
SHORTEST_S = 0.25  # between two redraws


class Reading(Message):
    """Message that a reader has a new value, or an error."""

    def __init__(self, reader: Reader[object]) -> None:
        super().__init__()
        self.reader = reader


class Reader(Generic[T]):
    """Reader that reads while its tab is shown. While a value waits for the screen, nothing is read.

    `show` and `fail` are called in the thread of the screen, only for a value or error that differs from the last.
    """

    def __init__(
        self,
        owner: Widget,
        read: Callable[[], T],
        show: Callable[[T], None],
        fail: Callable[[str], None],
        *,
        every_s: float,
        key: Callable[[T], object] = lambda value: value,
    ) -> None:
        self._owner, self._read, self._show, self._fail = owner, read, show, fail
        self.every_s, self._key = max(every_s, SHORTEST_S), key
        self._wake, self._taken, self._over = Event(), Event(), Event()
        self._resting = True
        self._fresh: tuple[T | None, str] = (None, "")
        self._last: tuple[object, str] | None = None
        self._thread: Thread | None = None

    @property
    def failed(self) -> bool:
        """Return whether the last reading ended with an error."""
        return bool(self._fresh[1])

    def start(self) -> None:
        """Read now, and from now on; the thread begins with the first call."""
        self._resting = False
        if self._thread is None:
            self._thread = Thread(target=self._run, name="mosaic-reader", daemon=True)
            self._thread.start()
        self.poke()

    def rest(self) -> None:
        """Stop reading until the next start."""
        self._resting = True

    def poke(self) -> None:
        """Read as soon as possible: something else is wanted now."""
        self._wake.set()

    def again(self) -> None:
        """Show the next value even if it equals the last."""
        self._last = None
        self.poke()

    def stop(self) -> None:
        self._over.set()
        self._taken.set()
        self._wake.set()

    def deliver(self) -> bool:
        """Show what was read, or the error; return whether a value was read. Called in the thread of the screen."""
        value, error = self._fresh
        self._taken.set()
        if self._over.is_set():
            return False
        if error:
            self._fail(error)
        elif value is not None:
            self._show(value)
        return value is not None

    def _run(self) -> None:
        while not self._over.is_set():
            self._wake.wait(None if self._resting else self.every_s)
            self._wake.clear()
            if self._resting or self._over.is_set():
                continue
            self._read_once()
            self._over.wait(SHORTEST_S)

    def _read_once(self) -> None:
        value, error = None, ""
        try:
            value = self._read()
        except (MosaicError, OSError) as failure:
            error = str(failure) or type(failure).__name__
        except Exception as failure:  # noqa: BLE001 - a defect, of a plug-in too, is shown; the thread continues
            error = f"{type(failure).__name__}: {failure}"
        found = (None if value is None else self._key(value), error)
        if found == self._last:
            return
        self._last, self._fresh = found, (value, error)
        self._taken.clear()
        if self._owner.post_message(Reading(self)):  # type: ignore[arg-type]
            self._taken.wait()
