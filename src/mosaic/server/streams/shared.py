"""Reference-counted shared feeds: created for the first user, closed after the last."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from mosaic.runs.processes import is_alive
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, State, read_state


class Feed(Protocol):
    """Feed; `over` is done when it has nothing more to give."""

    over: asyncio.Task[Any]

    def close(self) -> None: ...


K = TypeVar("K", bound=Hashable)
F = TypeVar("F", bound=Feed)


class _Entry(Generic[F]):
    def __init__(self, feed: F) -> None:
        self.feed, self.users = feed, 0


class Shared(Generic[K, F]):
    """Shared feeds of one event loop. One that is over is not shared again: its source may have started again."""

    def __init__(self, make: Callable[[K], F]) -> None:
        self._make = make
        self._entries: dict[K, _Entry[F]] = {}

    @contextmanager
    def use(self, key: K) -> Iterator[F]:
        entry = self._entries.get(key)
        if entry is None or entry.feed.over.done():
            entry = self._entries[key] = _Entry(self._make(key))
        entry.users += 1
        try:
            yield entry.feed
        finally:
            entry.users -= 1
            if not entry.users:
                entry.feed.close()
                if self._entries.get(key) is entry:
                    del self._entries[key]


async def sleep_unless_left(left: asyncio.Event, for_s: float) -> None:
    """Sleep for `for_s` seconds, or until all users have left."""
    try:
        async with asyncio.timeout(for_s):
            await left.wait()
    except TimeoutError:
        return


ENDED_CODE, GONE_CODE = 1000, 4404


def final_state(folder: RunFolder) -> State | None:
    """Return the state of a run that will store nothing more; a worker that lost its supervisor still saves and
    reports.
    """
    record = read_state(folder)
    if record.state not in ENDED:
        return None
    worker = record.attempts[-1].worker if record.attempts else None
    if record.state is State.LOST and worker is not None and is_alive(worker):
        return None
    return record.state


def close_reason(text: str) -> str:
    """Shorten a text to the close reason of a WebSocket, which is limited to 123 bytes."""
    return text.encode(errors="backslashreplace")[:120].decode(errors="ignore")
