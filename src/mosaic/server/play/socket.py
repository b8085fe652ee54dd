"""WebSocket of one viewer: states as text, pictures as bytes, keys and clicks back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.concurrency import run_in_threadpool
from starlette.status import WS_1009_MESSAGE_TOO_BIG, WS_1012_SERVICE_RESTART
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.server.play.feed import MatchFeed
from mosaic.server.play.match import Match
from mosaic.server.streams.shared import close_reason

ENDED_CODE = 4410
LONGEST_MESSAGE = 1 << 16  # of a viewer: keys, clicks and names; the server's own limit is that of the policy server


async def attend(socket: WebSocket, match: Match, claims: set[AgentID], allow: Callable[[PolicyID], None]) -> None:
    """Serve until the viewer leaves or the match ends; `allow` raises for policies that viewers must not name."""
    await socket.accept()
    loop, wake = asyncio.get_running_loop(), asyncio.Event()

    def notify() -> None:
        with suppress(RuntimeError):  # the loop is closed: no viewer is left
            loop.call_soon_threadsafe(wake.set)

    feed = MatchFeed(match, claims, allow, notify, shares=not match.state.hides)
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
            code = WS_1012_SERVICE_RESTART if feed.continues else ENDED_CODE
            await socket.close(code, close_reason(feed.ending))
            return
        await wake.wait()


async def _listen(socket: WebSocket, feed: MatchFeed) -> None:
    while socket.client_state is WebSocketState.CONNECTED:
        received = await socket.receive()
        if received["type"] == "websocket.disconnect":
            return
        text = received.get("text") or ""
        if len(text) > LONGEST_MESSAGE:
            await socket.close(WS_1009_MESSAGE_TOO_BIG)
            return
        feed.take(text)


def read_claims(agent: list[AgentID], match: Match, *, has_key: bool = False) -> set[AgentID]:
    """Return the agents that a link names; `has_key`: the viewer is about to present its agent's key.

    Without any, a game with hidden information gives its viewer the first human agent that no other viewer has: two
    people at two screens must not see each other's cards.
    """
    for name in agent:
        match.state.episode.check_agent(name)
    if agent or has_key or not match.state.hides:
        return set(agent)
    return match.state.free_agent()
