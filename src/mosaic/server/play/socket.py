"""WebSocket of one viewer: states as text, pictures as bytes, keys and clicks back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.server.play.feed import MatchFeed
from mosaic.server.play.match import Match
from mosaic.server.streams.shared import close_reason

ENDED_CODE = 4410


async def attend(socket: WebSocket, match: Match, claims: set[AgentID], allow: Callable[[PolicyID], None]) -> None:
    """Serve until the viewer leaves or the match ends; `allow` raises for policies that viewers must not name."""
    await socket.accept()
    loop, wake = asyncio.get_running_loop(), asyncio.Event()

    def notify() -> None:
        with suppress(RuntimeError):  # the loop is closed: no viewer is left
            loop.call_soon_threadsafe(wake.set)

    feed = MatchFeed(match, claims, allow, notify)
    try:
        feed.join()
    except MosaicError as error:
        await socket.close(ENDED_CODE, close_reason(str(error)))
        return
    listening = asyncio.create_task(_listen(socket, feed))
    listening.add_done_callback(lambda _: wake.set())
    try:
        await _show(socket, feed, wake, listening)
    except WebSocketDisconnect:
        pass  # the match continues without this viewer
    finally:
        feed.leave()
        listening.cancel()
        with suppress(asyncio.CancelledError, WebSocketDisconnect):
            await listening


async def _show(socket: WebSocket, feed: MatchFeed, wake: asyncio.Event, listening: asyncio.Task[None]) -> None:
    while not listening.done():
        wake.clear()
        for text in feed.texts():
            await socket.send_text(text)
        frame = feed.picture()
        if frame is not None:
            await socket.send_bytes(await run_in_threadpool(frame.message))
            continue
        if feed.ending:
            await socket.close(ENDED_CODE, close_reason(feed.ending))
            return
        await wake.wait()


async def _listen(socket: WebSocket, feed: MatchFeed) -> None:
    while socket.client_state is WebSocketState.CONNECTED:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            return
        feed.take(received.get("text") or "")


def read_claims(agent: list[AgentID], match: Match) -> set[AgentID]:
    """Return the agents that a link names."""
    for name in agent:
        match.state.episode.check_agent(name)
    return set(agent)
