"""WebSocket of a run's events as they occur: each once, in order, from any point on.

A message is one or more JSON objects, one per line. A disconnected client reconnects with the last `seq` it saw. When
the run has ended and everything was sent, the server closes with 1000 and the run's state as reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.core.errors import MosaicError
from mosaic.server.context import ServerContext
from mosaic.server.streams.events import EventFeed, EventLine, read_lines
from mosaic.server.streams.shared import ENDED_CODE, GONE_CODE, Shared, close_reason
from mosaic.store.run_folder import RunFolder
from mosaic.telemetry.events.reader import EventTail

_MOST_EVENTS = 500
_MOST_BYTES = 256 << 10


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter()
    feeds: Shared[RunFolder, EventFeed] = Shared(EventFeed)

    @router.websocket("/runs/{ref}/events")
    async def events(socket: WebSocket, ref: str, after_seq: Annotated[int, Query(ge=0, lt=2**63)] = 0) -> None:
        """Send metric events of a run, stored ones and then new ones, a line of JSON each; close when the run ends."""
        folder = await run_in_threadpool(context.folder, ref)
        await socket.accept()
        with feeds.use(folder) as feed:
            listener = _Listener(socket, folder, feed, after_seq)
            try:
                await listener.attend()
            except WebSocketDisconnect:
                pass  # the client has left; it reconnects from where it was
            except MosaicError as error:
                await socket.close(GONE_CODE, close_reason(str(error)))
            finally:
                listener.leave()

    return router


class _Listener:
    """Client that reads the file until it has caught up with the feed, and again whenever it falls behind."""

    def __init__(self, socket: WebSocket, folder: RunFolder, feed: EventFeed, after_seq: int) -> None:
        self._socket, self._folder, self._feed, self._seq = socket, folder, feed, after_seq
        self._wake = asyncio.Event()
        self._leaving = asyncio.create_task(_until_gone(socket))
        self._leaving.add_done_callback(lambda _: self._wake.set())
        feed.subscribe(self._wake)

    async def attend(self) -> None:
        await asyncio.sleep(0)  # a disconnect while the socket was accepted is noticed now
        while not self._leaving.done():
            self._wake.clear()
            over = self._feed.over.done()
            lines = self._feed.after(self._seq)
            if lines is None:
                lines = await self._catch_up()
            if lines:
                await self._send(lines)
            elif over:
                await self._socket.close(ENDED_CODE, self._feed.over.result())
                return
            else:
                await self._wake.wait()

    def leave(self) -> None:
        self._feed.unsubscribe(self._wake)
        self._leaving.cancel()

    async def _catch_up(self) -> list[EventLine]:
        """Send what is stored and return what came since; nothing if the feed has not begun."""
        with EventTail(self._folder.metrics, self._seq) as tail:
            while not self._leaving.done() and (lines := await run_in_threadpool(read_lines, tail)):
                await self._send(lines)
        return self._feed.after(self._seq) or []

    async def _send(self, lines: list[EventLine]) -> None:
        for message in messages(line.text for line in lines):
            await self._socket.send_text(message)
        self._seq = lines[-1].seq


def messages(lines: Iterable[str]) -> Iterator[str]:
    """Group small events into messages; none grows far beyond the limit."""
    together: list[str] = []
    size = 0
    for line in lines:
        if together and (len(together) == _MOST_EVENTS or size + len(line) > _MOST_BYTES):
            yield "\n".join(together)
            together, size = [], 0
        together.append(line)
        size += len(line) + 1
    if together:
        yield "\n".join(together)


async def _until_gone(socket: WebSocket) -> None:
    """Wait for the disconnect; ignore everything else that is received."""
    while (await socket.receive())["type"] != "websocket.disconnect":
        pass
