"""The newest picture of a run or a show, read and encoded once for all who look at the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from starlette.concurrency import run_in_threadpool

from mosaic.server.streams.frame_messages import pack
from mosaic.server.streams.shared import final_state, nap
from mosaic.store.live_sessions import Show, ShowPictures
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.telemetry.frames.reader import LaneState
from mosaic.telemetry.frames.requests import Wish
from mosaic.telemetry.pictures.live import LivePictures, Pictures


class Stage(Protocol):
    """Equal ones are the same."""

    def pictures(self, wish: Wish) -> Pictures: ...

    def end(self) -> str | None:
        """How it ended, in the words for a run; None while it goes on."""
        ...


@dataclass(frozen=True, slots=True)
class RunStage:
    folder: RunFolder

    def pictures(self, wish: Wish) -> Pictures:
        return LivePictures(self.folder.path, wish)

    def end(self) -> str | None:
        return final_state(self.folder)


@dataclass(frozen=True, slots=True)
class ShowStage:
    show: Show

    def pictures(self, wish: Wish) -> Pictures:
        return ShowPictures(self.show, wish)

    def end(self) -> str | None:
        return None if self.show.is_on() else State.FINISHED


_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.004, 0.1


class Picture(NamedTuple):
    number: int  # of this feed's
    state: LaneState  # which the message tells too
    message: bytes


class Looks(Protocol):
    """Who looks."""

    @property
    def hungry(self) -> bool:
        """Whether it has room for a picture."""
        ...

    def offer(self, state: LaneState, newest: Picture | None, *, last: bool) -> None:
        """How the writer is and the newest picture, which it may have got before. It must not wait."""
        ...


class FrameFeed:
    """While nobody has room nobody looks, so that nothing need be drawn. `over`: how the stage ended."""

    def __init__(self, sight: tuple[Stage, Wish]) -> None:
        self._stage, self._wish = sight
        self._viewers: set[Looks] = set()
        self._left = asyncio.Event()
        self.over: asyncio.Task[str | None] = asyncio.create_task(self._follow())
        self.over.add_done_callback(_forget)

    def join(self, viewer: Looks) -> None:
        self._viewers.add(viewer)

    def leave(self, viewer: Looks) -> None:
        self._viewers.discard(viewer)

    def close(self) -> None:
        self._left.set()  # the reader ends by itself: it may be in the middle of a picture

    async def _follow(self) -> str | None:
        """None: nobody looks any more."""
        newest: Picture | None = None
        with closing(self._stage.pictures(self._wish)) as pictures:
            while not self._left.is_set():
                state, message, end = await run_in_threadpool(_look, self._stage, pictures, _any_hungry(self._viewers))
                if message is not None:
                    newest = Picture(newest.number + 1 if newest else 1, state, message)
                for viewer in self._viewers:
                    viewer.offer(state, newest, last=end is not None)
                if end is not None:
                    return end
                await nap(self._left, _poll_s(self._wish.rate_hz) if state == "live" else _LONGEST_POLL_S)
        return None


def _any_hungry(viewers: Iterable[Looks]) -> bool:
    return any(viewer.hungry for viewer in viewers)


def _look(stage: Stage, pictures: Pictures, wanted: bool) -> tuple[LaneState, bytes | None, str | None]:
    # The end is asked for first: nothing is shown after it. What shows pictures has not ended.
    end = None if pictures.state == "live" else stage.end()
    frame = pictures.newest() if wanted or end is not None else None
    state = pictures.state
    return state, None if frame is None else pack(state, frame), end


def _poll_s(rate_hz: float) -> float:
    """Twice as often as pictures are wanted, so that none is late by more than half an interval."""
    return min(_LONGEST_POLL_S, max(_SHORTEST_POLL_S, 0.5 / rate_hz))


def _forget(over: asyncio.Task[str | None]) -> None:
    if not over.cancelled():
        over.exception()  # whoever looks raises it; where nobody does, it is of no interest
