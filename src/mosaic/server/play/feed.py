"""Feed of one viewer of a match: what is still to be sent to it, and what its messages do.

A message holds the whole state, so a newer one replaces an older one that was not sent yet. One picture is in transit
at a time: the next is due after the viewer said `seen`, and it is then the newest.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import assert_never

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.server.play.episode import HUMAN, MatchPhase
from mosaic.server.play.match import Match
from mosaic.server.play.messages import (
    Act,
    AssignPolicy,
    Axes,
    Click,
    Identify,
    Key,
    Keys,
    Message,
    Pause,
    Press,
    Ready,
    RecordDemo,
    Recording,
    Restart,
    Seen,
    SetRate,
    StepOnce,
    Swap,
    Thoughts,
    TypedMove,
    Undo,
    read_message,
)
from mosaic.server.play.participants import Viewer
from mosaic.server.play.rendering import MatchFrame
from mosaic.server.play.saved import STOPPED
from mosaic.server.play.state import view_of

_MOST_REFUSALS = 20


class MatchFeed:
    """Feed of one viewer; `notify` is called, from any thread, when something may be due."""

    def __init__(
        self,
        match: Match,
        claims: set[AgentID],
        allow: Callable[[PolicyID], None],
        notify: Callable[[], None],
        shares: bool = True,
    ) -> None:
        """Prepare the feed; `allow` raises for policies that viewers must not name, `shares` is the viewer's."""
        self._match, self._state, self._allow, self._notify = match, match.state, allow, notify
        self.viewer = Viewer(notify, set(claims), shares=shares)
        self._refusals: deque[str] = deque(maxlen=_MOST_REFUSALS)  # for a viewer that does not read them
        self._version, self._number = -1, 0
        self._ready = True  # for a picture

    def join(self) -> None:
        """Take part; raise if the match has ended or a claimed agent belongs to another viewer."""
        self._state.join(self.viewer)

    def leave(self) -> None:
        self._state.leave(self.viewer)

    def texts(self) -> list[str]:
        """Return the messages that are due: refusals, then the state if it has changed."""
        found = []
        while self._refusals:
            found.append(json.dumps({"type": "refused", "text": self._refusals.popleft()}))
        if self._state.viewers.version != self._version:
            self._version = self._state.viewers.version
            found.append(json.dumps(view_of(self._state, self.viewer)))
        return found

    def picture(self) -> MatchFrame | None:
        """Return the newest picture if the viewer is ready for it and has not got it."""
        with self._state.changed:
            frame = self._match.screen.frames.get(self._state.sight_of(self.viewer))
        if frame is None or frame.number == self._number or not self._ready:
            return None
        self._number, self._ready = frame.number, False
        return frame

    @property
    def ending(self) -> str:
        """Return why the match has ended; "" while it has not."""
        if self._state.episode.phase is not MatchPhase.ENDED:
            return ""
        return f"This match has ended: {self._state.episode.error}"

    @property
    def continues(self) -> bool:
        """Return whether the match has ended with the server, and a later one continues it."""
        return self._state.ending == STOPPED

    def take(self, text: str) -> None:
        """Carry out a message of the viewer; what cannot be done is refused in the next texts."""
        try:
            self._obey(read_message(text))
        except MosaicError as error:
            self._refuse(str(error))

    def _obey(self, message: Message) -> None:
        match, state, viewer = self._match, self._state, self.viewer
        match message:
            case Act():
                state.act(viewer, message.agent, message.action)
            case TypedMove():
                state.type_move(viewer, message.agent, message.text)
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
            case Identify():
                state.identify(viewer, message.key)
            case Ready():
                state.ready(viewer)
            case Pause():
                state.check_player(viewer)
                state.pause(message.on)
            case StepOnce():
                state.check_player(viewer)
                state.step_once()
            case Restart():
                state.check_player(viewer)
                state.restart(message)
            case Undo():
                self._follow(match.undo(viewer))
            case Swap():
                self._follow(match.swap(viewer))
            case AssignPolicy():
                if message.policy not in (None, HUMAN):
                    self._allow(str(message.policy))
                self._follow(match.assign(message.agent, message.policy, viewer))
            case SetRate():
                state.set_rate(viewer, message.hz)
            case Thoughts():
                match.think(message.on)
            case Recording():
                state.check_player(viewer)
                state.record(message.on)
            case RecordDemo():
                state.check_player(viewer)
                self._follow(match.record_demo(message.name))
            case Seen():
                self._ready = True
                self._notify()
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
