"""Feed of the newest picture of a run or live session, read and encoded once for all viewers of the same."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from starlette.concurrency import run_in_threadpool

from mosaic.server.streams.shared import final_state, sleep_unless_left
from mosaic.store.live_sessions import LiveSession, SessionPictures
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.telemetry.frames.reader import Pictures, StreamState
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.run_pictures import RunPictures
from mosaic.telemetry.pictures.message import pack


class FrameSource(Protocol):
    """Source of pictures; equal ones are the same source."""

    def pictures(self, request: FrameRequest) -> Pictures: ...

    def end(self) -> str | None:
        """Return how it ended, in the terms of a run's state; None while it continues."""
        ...


@dataclass(frozen=True, slots=True)
class RunFrames:
    folder: RunFolder
    source: str | None = None  # of a run with several; None: whichever is active

    def pictures(self, request: FrameRequest) -> Pictures:
        return RunPictures(self.folder.path, request, self.source)

    def end(self) -> str | None:
        return final_state(self.folder)


@dataclass(frozen=True, slots=True)
class SessionFrames:
    session: LiveSession

    def pictures(self, request: FrameRequest) -> Pictures:
        return SessionPictures(self.session, request)

    def end(self) -> str | None:
        return None if self.session.is_on() else State.FINISHED


_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.004, 0.1


class StreamPicture(NamedTuple):
    number: int  # counted per feed
    state: StreamState  # also contained in the message
    message: bytes


class FrameViewer(Protocol):
    """Viewer of a feed."""

    @property
    def ready(self) -> bool:
        """Return whether it has room for a picture."""
        ...

    def offer(self, state: StreamState, newest: StreamPicture | None, *, last: bool) -> None:
        """Take the writer's state and the newest picture, which it may already have; must not block."""
        ...


class FrameFeed:
    """Feed of pictures. Without a viewer that has room it requests none, so that nothing need be drawn.

    `over`: how the source ended.
    """

    def __init__(self, sight: tuple[FrameSource, FrameRequest]) -> None:
        self._source, self._request = sight
        self._viewers: set[FrameViewer] = set()
        self._left = asyncio.Event()
        self.over: asyncio.Task[str | None] = asyncio.create_task(self._follow())
        self.over.add_done_callback(_forget)

    def join(self, viewer: FrameViewer) -> None:
        self._viewers.add(viewer)

    def leave(self, viewer: FrameViewer) -> None:
        self._viewers.discard(viewer)

    def close(self) -> None:
        self._left.set()  # the reader ends by itself: it may be in the middle of a picture

    async def _follow(self) -> str | None:
        """Offer pictures until the source's end and return how it ended, or None once all viewers have left."""
        newest: StreamPicture | None = None
        with closing(self._source.pictures(self._request)) as pictures:
            while not self._left.is_set():
                state, message, end = await run_in_threadpool(_look, self._source, pictures, _any_ready(self._viewers))
                if message is not None:
                    newest = StreamPicture(newest.number + 1 if newest else 1, state, message)
                for viewer in self._viewers:
                    viewer.offer(state, newest, last=end is not None)
                if end is not None:
                    return end
                await sleep_unless_left(
                    self._left, _poll_s(self._request.rate_hz) if state == "live" else _LONGEST_POLL_S
                )
        return None


def _any_ready(viewers: Iterable[FrameViewer]) -> bool:
    return any(viewer.ready for viewer in viewers)


def _look(source: FrameSource, pictures: Pictures, wanted: bool) -> tuple[StreamState, bytes | None, str | None]:
    # The end is read first: no picture follows it. A source with a live writer has not ended.
    end = None if pictures.state == "live" else source.end()
    frame = pictures.newest() if wanted or end is not None else None
    state = pictures.state
    return state, None if frame is None else pack(state, frame), end


def _poll_s(rate_hz: float) -> float:
    """Return half the interval between wanted pictures, so that none is late by more than that."""
    return min(_LONGEST_POLL_S, max(_SHORTEST_POLL_S, 0.5 / rate_hz))


def _forget(over: asyncio.Task[str | None]) -> None:
    if not over.cancelled():
        over.exception()  # viewers raise it; without any, it does not matter
