"""WebSocket of one viewer: states as text, pictures as bytes, keys and clicks back.

A message holds the whole state, so a newer one replaces an older one that was not sent yet. One picture is in transit
at a time: the next is sent after the viewer said `seen`, and it is then the newest.
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import assert_never

from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect, WebSocketState

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.server.play.episode import MatchPhase
from mosaic.server.play.match import Match
from mosaic.server.play.messages import (
    Act,
    AssignPolicy,
    Axes,
    Click,
    Key,
    Keys,
    Message,
    Pause,
    Press,
    Recording,
    Restart,
    Seen,
    SetRate,
    StepOnce,
    Swap,
    Thoughts,
    read_message,
)
from mosaic.server.play.participants import HUMAN, Viewer
from mosaic.server.play.state import view_of
from mosaic.server.streams.shared import close_reason

ENDED_CODE = 4410
_MOST_REFUSALS = 20


async def attend(socket: WebSocket, match: Match, claims: set[AgentID], allow: Callable[[PolicyID], None]) -> None:
    """Serve until the viewer leaves or the match ends; `allow` raises for policies that viewers must not name."""
    await socket.accept()
    screen = _Screen(socket, match, claims, allow)
    try:
        match.state.join(screen.viewer)
    except MosaicError as error:
        await socket.close(ENDED_CODE, close_reason(str(error)))
        return
    listening = asyncio.create_task(screen.listen())
    listening.add_done_callback(lambda _: screen.wake.set())
    try:
        await screen.show(listening)
    except WebSocketDisconnect:
        pass  # the match continues without this viewer
    finally:
        match.state.leave(screen.viewer)
        listening.cancel()
        with suppress(asyncio.CancelledError, WebSocketDisconnect):
            await listening


class _Screen:
    def __init__(
        self, socket: WebSocket, match: Match, claims: set[AgentID], allow: Callable[[PolicyID], None]
    ) -> None:
        self._socket, self._match, self._state, self._allow = socket, match, match.state, allow
        self._loop = asyncio.get_running_loop()
        self.wake = asyncio.Event()
        self.viewer = Viewer(self._notify, set(claims))
        self._refusals: deque[str] = deque(maxlen=_MOST_REFUSALS)  # for a viewer that does not read them
        self._ready = True  # for a picture

    async def show(self, listening: asyncio.Task[None]) -> None:
        version, number = -1, 0
        while not listening.done():
            self.wake.clear()
            while self._refusals:
                await self._socket.send_text(json.dumps({"type": "refused", "text": self._refusals.popleft()}))
            if self._state.viewers.version != version:
                version = self._state.viewers.version
                await self._socket.send_text(json.dumps(view_of(self._state, self.viewer)))
            frame = self._match.screen.frame
            if frame is not None and frame.number != number and self._ready:
                number, self._ready = frame.number, False
                await self._socket.send_bytes(await run_in_threadpool(frame.message))
                continue
            if self._state.episode.phase is MatchPhase.ENDED:
                await self._socket.close(ENDED_CODE, close_reason(f"This match has ended: {self._state.episode.error}"))
                return
            await self.wake.wait()

    async def listen(self) -> None:
        while self._socket.client_state is WebSocketState.CONNECTED:
            received = await self._socket.receive()
            if received["type"] == "websocket.disconnect":
                return
            try:
                self._obey(read_message(received.get("text") or ""))
            except MosaicError as error:
                self._refuse(str(error))

    def _obey(self, message: Message) -> None:
        match, state, viewer = self._match, self._state, self.viewer
        match message:
            case Act():
                state.act(viewer, message.agent, message.action)
            case Press():
                state.press(viewer, message.agent, message.spot)
            case Click():
                state.click(viewer, message.agent, message.x, message.y)
            case Key():
                state.key(viewer, message.code, message.key, message.down)
            case Axes():
                state.axes(viewer, tuple(message.values))
            case Keys():
                state.bind(viewer, message.bindings)
            case Pause():
                state.pause(message.on)
            case StepOnce():
                state.step_once()
            case Restart():
                state.restart(message)
            case Swap():
                self._follow(match.swap(viewer))
            case AssignPolicy():
                if message.policy not in (None, HUMAN):
                    self._allow(str(message.policy))
                self._follow(match.assign(message.agent, message.policy, viewer))
            case SetRate():
                state.set_rate(message.hz)
            case Thoughts():
                match.think(message.on)
            case Recording():
                state.record(message.on)
            case Seen():
                self._ready = True
                self.wake.set()
            case _:
                assert_never(message)

    def _follow(self, order: Future[None]) -> None:
        """Report a failure of the order when it happens; keys must not wait behind it."""

        def told(done: Future[None]) -> None:
            error = done.exception()
            if isinstance(error, MosaicError):
                self._refuse(str(error))
            elif error is not None:
                self._refuse(f"{type(error).__name__}: {error}")

        order.add_done_callback(told)

    def _refuse(self, text: str) -> None:
        self._refusals.append(text)
        self._notify()

    def _notify(self) -> None:
        with suppress(RuntimeError):  # the loop is closed: no viewer is left
            self._loop.call_soon_threadsafe(self.wake.set)


def read_claims(agent: list[AgentID], match: Match) -> set[AgentID]:
    """Return the agents that a link names."""
    for name in agent:
        match.state.episode.check_agent(name)
    return set(agent)
