"""A run's new events, read and encoded once for all who listen.

The feed remembers the last few. Whoever wants older ones, because it came late or is slow, reads the file itself until
it has caught up: so nothing is queued for anybody.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import NamedTuple

from starlette.concurrency import run_in_threadpool

from mosaic.server.streams.shared import final_state, nap
from mosaic.server.views import last_seq
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.telemetry.events.event import encode
from mosaic.telemetry.events.reader import EventTail

POLL_S = 0.05
REMEMBERED = 500  # events


class Line(NamedTuple):
    seq: int
    text: str


class EventFeed:
    """`over` is done when everything was read that will be stored: the run's state, or why it cannot be read."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._recent: deque[Line] = deque()
        self._forgotten: int | None = None  # up to this seq the file must be asked
        self._bells: set[asyncio.Event] = set()
        self._left = asyncio.Event()
        self.over: asyncio.Task[State | None] = asyncio.create_task(self._follow())
        self.over.add_done_callback(self._ended)

    def after(self, seq: int) -> list[Line] | None:
        """What came after it; None where that was too long ago, or nothing was read yet."""
        if self._forgotten is None or seq < self._forgotten:
            return None
        found = []
        for line in reversed(self._recent):
            if line.seq <= seq:
                break
            found.append(line)
        return found[::-1]

    def ring(self, bell: asyncio.Event) -> None:
        """Set it whenever there is news, and at the end."""
        self._bells.add(bell)

    def silence(self, bell: asyncio.Event) -> None:
        self._bells.discard(bell)

    def close(self) -> None:
        self._left.set()  # the reader ends by itself: it may be in the middle of the file

    async def _follow(self) -> State | None:
        """None: nobody listens any more."""
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
                    await nap(self._left, POLL_S)
        return None

    def _remember(self, lines: list[Line]) -> None:
        self._recent.extend(lines)
        while len(self._recent) > REMEMBERED:
            self._forgotten = self._recent.popleft().seq

    def _news(self) -> None:
        for bell in self._bells:
            bell.set()

    def _ended(self, over: asyncio.Task[State | None]) -> None:
        if not over.cancelled():
            over.exception()  # whoever listens raises it; where nobody does, it is of no interest
        self._news()


def read_lines(tail: EventTail) -> list[Line]:
    return [Line(event["seq"], encode(event).decode()) for event in tail.read()]


def _look(folder: RunFolder, tail: EventTail) -> tuple[list[Line], State | None]:
    end = final_state(folder)  # asked first: nothing is stored after the end
    return read_lines(tail), end
