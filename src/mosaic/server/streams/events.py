"""Feed of a run's new events, read and encoded once for all listeners.

The feed keeps the last few. A listener that needs older ones, because it came late or is slow, reads the file itself
until it has caught up, so that nothing is queued per listener.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from mosaic.server.streams.shared import final_state, sleep_unless_left
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.store.views import last_seq
from mosaic.telemetry.events.event import encode
from mosaic.telemetry.events.reader import EventTail

POLL_S = 0.05
REMEMBERED = 500  # events


class EventLine(NamedTuple):
    seq: int
    text: str


class EventFeed:
    """Feed of a run's events; `over` is done when all that will be stored was read: the run's state, or the error."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._recent: deque[EventLine] = deque()
        self._forgotten: int | None = None  # events up to this seq must be read from the file
        self._wake_events: set[asyncio.Event] = set()
        self._left = asyncio.Event()
        self.over: asyncio.Task[State | None] = asyncio.create_task(self._follow())
        self.over.add_done_callback(self._ended)

    def after(self, seq: int) -> list[EventLine] | None:
        """Return the events after `seq`; None if that was too long ago, or nothing was read yet."""
        if self._forgotten is None or seq < self._forgotten:
            return None
        found = []
        for line in reversed(self._recent):
            if line.seq <= seq:
                break
            found.append(line)
        return found[::-1]

    def subscribe(self, wake: asyncio.Event) -> None:
        """Register an asyncio event that is set whenever there are new events, and at the end."""
        self._wake_events.add(wake)

    def unsubscribe(self, wake: asyncio.Event) -> None:
        self._wake_events.discard(wake)

    def close(self) -> None:
        self._left.set()  # the reader ends by itself: it may be in the middle of the file

    async def _follow(self) -> State | None:
        """Read until the run's end and return its state, or None once all listeners have left."""
        self._forgotten = await run_in_threadpool(last_seq, self._folder)
        self._news()
        with EventTail(self._folder.metrics, self._forgotten) as tail:
            while not self._left.is_set():
                lines, end = await run_in_threadpool(_look, self._folder, tail)
                if lines:
                    self._remember(lines)
                    self._news()
                elif end is not None:
                    return end
                else:
                    await sleep_unless_left(self._left, POLL_S)
        return None

    def _remember(self, lines: list[EventLine]) -> None:
        self._recent.extend(lines)
        while len(self._recent) > REMEMBERED:
            self._forgotten = self._recent.popleft().seq

    def _news(self) -> None:
        for wake in self._wake_events:
            wake.set()

    def _ended(self, over: asyncio.Task[State | None]) -> None:
        if not over.cancelled():
            over.exception()  # listeners raise it; without any, it does not matter
        self._news()


def read_lines(tail: EventTail) -> list[EventLine]:
    return [EventLine(event["seq"], encode(event).decode()) for event in tail.read()]


def _look(folder: RunFolder, tail: EventTail) -> tuple[list[EventLine], State | None]:
    end = final_state(folder)  # read first: nothing is stored after the end
    return read_lines(tail), end
