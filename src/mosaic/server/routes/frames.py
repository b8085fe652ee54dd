"""WebSocket of live pictures: only the newest one, and no faster than the viewer asks.

Every message of the viewer, whatever it says, is a credit for one picture; a viewer that falls behind gets fewer and
never an old one. A viewer without credits does not count as watching, so that the run need not draw. The writer's state
costs no credit; when the run has ended, its last picture is sent, and the server closes with 1000 and the run's state
as reason. For the messages see `telemetry.pictures.message`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Annotated, TypeAlias

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.core.errors import MosaicError
from mosaic.server.context import ServerContext
from mosaic.server.streams.frames import FrameFeed, FrameSource, RunFrames, SessionFrames, StreamPicture
from mosaic.server.streams.shared import ENDED_CODE, GONE_CODE, Shared, close_reason
from mosaic.store.live_sessions import find_session
from mosaic.store.views import LiveRow, live_rows, running_rows
from mosaic.telemetry.frames.reader import StreamState
from mosaic.telemetry.frames.requests import FrameRequest
from mosaic.telemetry.frames.sources import SOURCE_PATTERN
from mosaic.telemetry.pictures.message import pack

MOST_CREDITS = 4  # pictures in transit to one viewer
FASTEST_HZ = 120.0

Rate: TypeAlias = Annotated[float, Query(ge=0.1, le=FASTEST_HZ)]
Env: TypeAlias = Annotated[int, Query(ge=0, lt=2**31)]
Grid: TypeAlias = Annotated[int, Query(ge=1, le=64)]
Source: TypeAlias = Annotated[str | None, Query(pattern=SOURCE_PATTERN)]


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter()
    feeds: Shared[tuple[FrameSource, FrameRequest], FrameFeed] = Shared(FrameFeed)

    @router.websocket("/runs/{ref}/frames")
    async def frames(
        socket: WebSocket, ref: str, rate: Rate = 30.0, env: Env = 0, grid: Grid = 1, source: Source = None
    ) -> None:
        """Send live pictures of a run as binary messages; each message that the client sends requests one more."""
        folder = await run_in_threadpool(context.folder, ref)
        await _show(socket, feeds, (RunFrames(folder, source), FrameRequest(rate, env, grid)))

    @router.websocket("/live/{ref}/frames")
    async def live_frames(socket: WebSocket, ref: str, rate: Rate = 30.0) -> None:
        """Send live pictures of an evaluation, a tournament, a game or a match, as `/runs/{ref}/frames` does."""
        session = await run_in_threadpool(find_session, context.store.home, ref)
        await _show(socket, feeds, (SessionFrames(session), FrameRequest(rate)))

    @router.get("/live")
    def live() -> list[LiveRow]:
        """List what is being played now: evaluations, tournaments, games, matches, and runs with several sources.

        Newest first. The pictures of a run are at `/runs/{ref}/frames?source=…`.
        """
        return [*live_rows(context.store.home), *running_rows(context.store)]

    return router


async def _show(
    socket: WebSocket,
    feeds: Shared[tuple[FrameSource, FrameRequest], FrameFeed],
    sight: tuple[FrameSource, FrameRequest],
) -> None:
    await socket.accept()
    with feeds.use(sight) as feed:
        viewer = _Viewer(socket, feed)
        try:
            await viewer.attend()
        except WebSocketDisconnect:
            pass  # the viewer has left
        except MosaicError as error:
            await socket.close(GONE_CODE, close_reason(str(error)))
        finally:
            viewer.leave()


class _Viewer:
    """Viewer and its credits for further pictures."""

    def __init__(self, socket: WebSocket, feed: FrameFeed) -> None:
        self._socket, self._feed = socket, feed
        self._credits = 0
        self._told: StreamState | None = None
        self._shown = 0
        self._outbox: deque[bytes] = deque()
        self._wake = asyncio.Event()
        self._leaving = asyncio.create_task(self._listen())
        for ending in (self._leaving, feed.over):
            ending.add_done_callback(self._wake_up)
        feed.join(self)

    @property
    def ready(self) -> bool:
        return self._credits > 0 and not self._outbox  # a queued one would become outdated

    def offer(self, state: StreamState, newest: StreamPicture | None, *, last: bool) -> None:
        if newest is not None and newest.number != self._shown and (self.ready or last):
            self._credits = max(0, self._credits - 1)
            self._shown, self._told = newest.number, newest.state
            self._outbox.append(newest.message)
        elif state != self._told:
            self._told = state
            self._outbox.append(pack(state))
        else:
            return
        self._wake.set()

    async def attend(self) -> None:
        while not self._leaving.done():
            self._wake.clear()
            while self._outbox:
                await self._socket.send_bytes(self._outbox[0])
                self._outbox.popleft()
            if self._feed.over.done():
                await self._socket.close(ENDED_CODE, self._feed.over.result())
                return
            await self._wake.wait()

    def leave(self) -> None:
        self._feed.leave(self)
        self._feed.over.remove_done_callback(self._wake_up)
        self._leaving.cancel()

    def _wake_up(self, _: asyncio.Task[object]) -> None:
        self._wake.set()

    async def _listen(self) -> None:
        while (await self._socket.receive())["type"] != "websocket.disconnect":
            self._credits = min(MOST_CREDITS, self._credits + 1)
