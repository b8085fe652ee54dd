"""A run's pictures as they come, over a WebSocket: the newest one only, and no faster than the viewer asks.

Every message of the viewer's, whatever it says, is a credit for one picture; a viewer that falls behind gets fewer and
never an old one. Without credits nobody looks, so that the run need not draw. How the writer is costs no credit; when
the run has ended, its last picture is sent, and the server closes with 1000 and the run's state as reason. For the
messages see `frame_messages`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, NamedTuple

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.core.errors import MosaicError
from mosaic.server.desk import Desk
from mosaic.server.ending import ENDED_CODE, GONE_CODE, final_state, reason
from mosaic.server.frame_messages import pack
from mosaic.store.layout import RunFolder
from mosaic.store.state import State
from mosaic.telemetry.fastlane_reader import LaneState
from mosaic.telemetry.fastlane_wishes import Wish
from mosaic.telemetry.pictures.live import LivePictures

MOST_CREDITS = 4  # pictures on their way to one viewer
FASTEST_HZ = 120.0
_SHORTEST_POLL_S, _LONGEST_POLL_S = 0.004, 0.05


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.websocket("/runs/{ref}/frames")
    async def frames(
        socket: WebSocket,
        ref: str,
        rate: Annotated[float, Query(ge=0.1, le=FASTEST_HZ)] = 30.0,
        env: Annotated[int, Query(ge=0, lt=2**31)] = 0,
        grid: Annotated[int, Query(ge=1, le=64)] = 1,
    ) -> None:
        folder = await run_in_threadpool(desk.folder, ref)
        await socket.accept()
        viewer = _Viewer(socket)
        try:
            with LivePictures(folder.path, Wish(rate, env, grid)) as pictures:
                await _show(viewer, folder, pictures, _poll_s(rate))
        except WebSocketDisconnect:
            pass  # whoever looked has left
        except MosaicError as error:
            await socket.close(GONE_CODE, reason(str(error)))
        finally:
            viewer.leaving.cancel()

    return router


class _Viewer:
    """Who looks, and for how many more pictures it has room."""

    def __init__(self, socket: WebSocket) -> None:
        self.socket = socket
        self.credits = 0
        self._told: LaneState | None = None
        self.leaving = asyncio.create_task(self._listen())

    async def send(self, state: LaneState, message: bytes | None) -> None:
        """The message, which holds the state too; without one the state alone, where it is another than before."""
        if message is not None:
            self.credits = max(0, self.credits - 1)
        elif state == self._told:
            return
        self._told = state
        await self.socket.send_bytes(pack(state) if message is None else message)

    async def _listen(self) -> None:
        while (await self.socket.receive())["type"] != "websocket.disconnect":
            self.credits = min(MOST_CREDITS, self.credits + 1)


class _Seen(NamedTuple):
    state: LaneState
    message: bytes | None
    end: State | None


async def _show(viewer: _Viewer, folder: RunFolder, pictures: LivePictures, poll_s: float) -> None:
    while not viewer.leaving.done():
        seen = await run_in_threadpool(_look, folder, pictures, viewer.credits > 0)
        if viewer.leaving.done():
            return
        await viewer.send(seen.state, seen.message)
        if seen.end is not None:
            await viewer.socket.close(ENDED_CODE, seen.end)
            return
        await asyncio.wait([viewer.leaving], timeout=poll_s)


def _look(folder: RunFolder, pictures: LivePictures, wanted: bool) -> _Seen:
    # The end is asked for first: nothing is shown after it. A run that shows pictures has not ended.
    end = None if pictures.state == "live" else final_state(folder)
    frame = pictures.newest() if wanted or end is not None else None
    state = pictures.state
    return _Seen(state, None if frame is None else pack(state, frame), end)


def _poll_s(rate_hz: float) -> float:
    """Twice as often as pictures are wanted, so that none is late by more than half an interval."""
    return min(_LONGEST_POLL_S, max(_SHORTEST_POLL_S, 0.5 / rate_hz))
