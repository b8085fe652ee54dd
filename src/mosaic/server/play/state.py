"""Shared state of a match, and what viewers may do to it.

One lock guards everything. Screens call the methods from any thread; the match's own thread waits on the same lock
until something changes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum, auto
from typing import Any

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.spaces import objection
from mosaic.policies.mapping import PolicyMapping
from mosaic.server.play.advice import Advice
from mosaic.server.play.clicks import Choice, next_spots, press, spot_at
from mosaic.server.play.human import read_action
from mosaic.server.play.keys import Binding, KeyMap, check_bindings, held_action
from mosaic.server.play.messages import MatchRequest
from mosaic.server.play.participants import PolicyAssignments, Viewer, acts_for, require_owner, who_acts
from mosaic.server.play.timing import DEFAULT_TURNS_HZ
from mosaic.telemetry.frames.reader import Frame
from mosaic.telemetry.pictures.message import pack

STATE_EVERY_S = 0.2  # of a real-time game; its pictures are updated more often

MOST_KEYS = 64  # of one viewer, down at once or since the last step


class MatchPhase(StrEnum):
    OPENING = auto()
    PLAYING = auto()
    OVER = auto()
    FAILED = auto()
    ENDED = auto()


class MatchEndedError(MosaicError):
    """Error for a match that has ended."""


class MatchFrame:
    """Newest picture, encoded when the first viewer is ready for it: the match does not wait for that."""

    def __init__(self, frame: Frame) -> None:
        self.number = frame.number  # grows with every picture
        self._frame, self._message = frame, b""
        self._lock = threading.Lock()

    def message(self) -> bytes:
        with self._lock:
            self._message = self._message or pack("live", self._frame)
        return self._message


@dataclass(frozen=True, slots=True)
class Move:
    step: int
    agent: AgentID
    policy: PolicyID
    text: str


class MatchState:
    """Shared state of a match. Methods take the lock themselves, except those that say otherwise."""

    def __init__(self, match_id: str, request: MatchRequest, clock: Callable[[], float]) -> None:
        self.id, self.request, self.clock = match_id, request, clock
        self.changed = threading.Condition()
        self.version = 0  # grows with every change that viewers are notified of
        self.told_at_s = -math.inf
        # participants
        self.assignments = PolicyAssignments(PolicyMapping.of(request.agents))
        self.viewers: list[Viewer] = []
        self.unwatched_since = clock()
        # requests
        self.paused, self.steps_asked = False, 0
        self.restart_asked = False
        self.restart_seed: int | None = None
        self.ending = ""  # why it is to end
        self.recording, self.thinking = request.record, False
        self.answers: dict[AgentID, Action] = {}
        # current position
        self.spec: EnvSpec | None = None
        self.agents: tuple[AgentID, ...] = ()
        self.key_maps: dict[AgentID, KeyMap] = {}
        self.real_time, self.rate_hz, self.due_s = False, request.rate_hz or DEFAULT_TURNS_HZ, 0.0
        self.phase, self.error, self.note, self.result = MatchPhase.OPENING, "", "", ""
        self.episode, self.seed, self.step = 0, request.seed, 0
        self.turn: Turn | None = None
        self.choices: dict[AgentID, tuple[Choice, ...]] = {}
        self.last_actions: dict[AgentID, Action] = {}
        self.moves: list[Move] = []
        self.returns: dict[AgentID, float] = {}
        self.advice: Advice | None = None
        self.frame: MatchFrame | None = None
        self.kept: list[str] = []

    def join(self, viewer: Viewer) -> None:
        with self.changed:
            self.check_alive()
            require_owner(Viewer(viewer.notify), self.viewers, viewer.claims)
            self.viewers.append(viewer)
            self.tell()

    def leave(self, viewer: Viewer) -> None:
        with self.changed:
            if viewer in self.viewers:
                self.viewers.remove(viewer)
            if not self.viewers:
                self.unwatched_since = self.clock()
            self.tell()

    def act(self, viewer: Viewer, agent: AgentID | None, data: Any) -> None:
        with self.changed:
            agent = self._who(viewer, agent)
            self._answer(agent, read_action(self.known_spec.action_spaces[agent], data))

    def press(self, viewer: Viewer, agent: AgentID | None, spot: str) -> None:
        with self.changed:
            self._press(viewer, self._who(viewer, agent), spot)

    def click(self, viewer: Viewer, agent: AgentID | None, x: float, y: float) -> None:
        with self.changed:
            agent = self._who(viewer, agent)
            self._press(viewer, agent, spot_at(self.choices.get(agent, ()), viewer.path, x, y))

    def key(self, viewer: Viewer, code: str, key: str, down: bool) -> None:
        """Handle a key: in real time keys are held; in turn-based games a key press chooses."""
        with self.changed:
            self.check_alive()
            if not down:
                viewer.held.pop(code, None)
                return
            if len(viewer.tapped) >= MOST_KEYS or len(viewer.held) >= MOST_KEYS:
                raise InputError(f"More than {MOST_KEYS} keys are down at once.")
            viewer.held[code] = viewer.tapped[code] = None
            acting = [a for a in self.mine(viewer) if self.turn is not None and a in self.turn.observations]
            if self.real_time or not acting or self.phase is not MatchPhase.PLAYING:
                return
            typed = [s.id for s in next_spots(self.choices.get(acting[0], ()), viewer.path) if s.key and s.key == key]
            if typed:
                self._press(viewer, acting[0], typed[0])
                return
            bindings = self.bindings_of(viewer, acting[0])
            if any(code in binding.keys for binding in bindings):
                keys = self.key_maps[acting[0]]
                self._answer(acting[0], held_action(keys, bindings, tuple(viewer.held), viewer.axes))

    def axes(self, viewer: Viewer, values: tuple[float, ...]) -> None:
        viewer.axes = values  # one assignment: the next step reads the old or the new

    def bind(self, viewer: Viewer, bindings: list[Binding] | None) -> None:
        with self.changed:
            space = next((self.known_spec.action_spaces[agent] for agent in self.agents), None)
            viewer.bindings = None if bindings is None or space is None else check_bindings(space, bindings)
            self.tell()

    def pause(self, on: bool) -> None:
        with self.changed:
            self.paused, self.steps_asked = on, 0
            self.tell()

    def step_once(self) -> None:
        """Take one env step while paused; a running game is paused by it."""
        with self.changed:
            self.paused = True
            self.steps_asked += 1
            self.tell()

    def restart(self, seed: int | None = None) -> None:
        with self.changed:
            self.check_alive()
            self.restart_asked, self.restart_seed = True, seed
            self.tell()

    def set_rate(self, hz: float) -> None:
        with self.changed:
            self.rate_hz, self.due_s = hz, self.clock()
            self.tell()

    def record(self, on: bool) -> None:
        with self.changed:
            self.recording = on
            self.tell()

    @property
    def acting(self) -> tuple[AgentID, ...]:
        live = self.phase is MatchPhase.PLAYING
        return tuple(self.turn.observations) if self.turn is not None and live else ()

    def axes_of(self, agent: AgentID) -> int:
        """Return how many axes a mouse or gamepad can move."""
        space = self.known_spec.action_spaces[agent]
        return int(space.shape[0]) if space.dtype is not None and space.dtype.kind == "f" and space.shape else 0

    @property
    def known_spec(self) -> EnvSpec:
        if self.spec is None:
            raise MatchEndedError("The match has not begun.")
        return self.spec

    def check_alive(self) -> None:
        if self.phase is MatchPhase.ENDED:
            raise MatchEndedError(f"This match has ended: {self.ending or self.error}")

    def tell(self) -> None:
        self.version += 1
        self.told_at_s = self.clock()
        self.changed.notify_all()
        for viewer in self.viewers:
            viewer.notify()

    def mine(self, viewer: Viewer) -> list[AgentID]:
        return acts_for(viewer, self.viewers, [agent for agent in self.agents if self.assignments.is_human(agent)])

    def _who(self, viewer: Viewer, wanted: AgentID | None) -> AgentID:
        self.check_alive()
        if self.phase is MatchPhase.OVER:
            raise InputError("The episode is over. Restart to play again.")
        if self.phase is MatchPhase.FAILED:
            raise InputError(f"The episode cannot continue: {self.error} Restart to play again.")
        known = wanted is not None and wanted in self.agents
        if wanted is not None and not known:
            raise InputError(f"There is no agent '{wanted}' in this match. Agents: {', '.join(self.agents)}.")
        human = wanted is not None and self.assignments.is_human(wanted)
        acting = [agent for agent in self.acting if wanted is not None or self.real_time or agent not in self.answers]
        return who_acts(wanted, self.mine(viewer), acting, human)

    def _press(self, viewer: Viewer, agent: AgentID, spot: str) -> None:
        pressed = press(self.choices.get(agent, ()), viewer.path, spot)
        viewer.path = pressed.path
        if pressed.action is None:
            self.tell()
        else:
            self._answer(agent, pressed.action)

    def _answer(self, agent: AgentID, action: Action) -> None:
        turn = self.turn
        mask = None if turn is None else turn.action_masks.get(agent)
        problem = objection(self.known_spec.action_spaces[agent])(action, mask)
        if problem:
            raise InputError(f"'{agent}' may not play {problem}.")
        self.answers[agent] = action
        self.tell()

    def bindings_of(self, viewer: Viewer, agent: AgentID) -> tuple[Binding, ...]:
        """Return the key bindings: two players at one keyboard have a hand each; a single player has both."""
        if viewer.bindings is not None:
            return tuple(binding for binding in viewer.bindings if binding.agent in (None, agent))
        keys, mine = self.key_maps[agent], self.mine(viewer)
        if len(mine) < 2:
            return keys.both
        return (keys.left, keys.right)[mine.index(agent)] if mine.index(agent) < 2 else ()

    def _held(self, agent: AgentID) -> Action:
        """Return the action for the keys that the agent's player holds now."""
        keys = self.key_maps[agent]
        for viewer in self.viewers:
            if agent in self.mine(viewer):
                held = tuple({**viewer.tapped, **viewer.held})
                found = held_action(keys, self.bindings_of(viewer, agent), held, viewer.axes)
                if found is not None:
                    return found
        last = self.last_actions.get(agent)
        if last is not None:
            return last
        return keys.rest if keys.rest is not None else self.choices[agent][0].action

    def take_answers(self, turn: Turn) -> dict[AgentID, Action]:
        taken: dict[AgentID, Action] = {}
        for agent in turn.observations:
            if self.assignments.is_human(agent):
                taken[agent] = self.answers[agent] if agent in self.answers else self._held(agent)
        self.answers.clear()
        self.last_actions.update(taken)
        for viewer in self.viewers:
            viewer.tapped.clear()
            viewer.path = ()
        return taken

    def is_due(self) -> bool:
        return self.clock() - self.told_at_s >= STATE_EVERY_S
