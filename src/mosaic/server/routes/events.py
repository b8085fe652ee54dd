"""A run's events as they come, over a WebSocket: each once, in order, from any point on.

A message is one or more JSON objects, one a line. Whoever was cut off asks again with the last `seq` it saw. When the
run has ended and everything was sent, the server closes with 1000 and the run's state as reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.core.errors import MosaicError
from mosaic.server.desk import Desk
from mosaic.server.ending import ENDED_CODE, GONE_CODE, final_state, reason
from mosaic.store.layout import RunFolder
from mosaic.telemetry.event import MetricEvent, encode
from mosaic.telemetry.reader import EventTail

POLL_S = 0.05
_MOST_EVENTS = 500
_MOST_BYTES = 256 << 10


def routes(desk: Desk) -> APIRouter:
    router = APIRouter()

    @router.websocket("/runs/{ref}/events")
    async def events(socket: WebSocket, ref: str, after_seq: Annotated[int, Query(ge=0, lt=2**63)] = 0) -> None:
        folder = await run_in_threadpool(desk.folder, ref)
        await socket.accept()
        leaving = asyncio.create_task(_until_gone(socket))
        try:
            with EventTail(folder.metrics, after_seq) as tail:
                await _stream(socket, folder, tail, leaving)
        except WebSocketDisconnect:
            pass  # whoever listened has left; it asks again from where it was
        except MosaicError as error:
            await socket.close(GONE_CODE, reason(str(error)))
        finally:
            leaving.cancel()

    return router


async def _stream(socket: WebSocket, folder: RunFolder, tail: EventTail, leaving: asyncio.Task[None]) -> None:
    while not leaving.done():
        end = await run_in_threadpool(final_state, folder)  # asked first: nothing is stored after the end
        while not leaving.done() and (events := await run_in_threadpool(tail.read)):
            for message in messages(events):
                await socket.send_text(message)
        if leaving.done():
            return
        if end is not None:
            await socket.close(ENDED_CODE, end)
            return
        await asyncio.wait([leaving], timeout=POLL_S)


def messages(events: Sequence[MetricEvent]) -> Iterator[str]:
    """Many small events share a message; none grows far beyond the limit."""
    lines: list[str] = []
    size = 0
    for event in events:
        line = encode(event).decode()
        if lines and (len(lines) == _MOST_EVENTS or size + len(line) > _MOST_BYTES):
            yield "\n".join(lines)
            lines, size = [], 0
        lines.append(line)
        size += len(line) + 1
    if lines:
        yield "\n".join(lines)


async def _until_gone(socket: WebSocket) -> None:
    """What a listener says is not listened to; that it leaves is."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
