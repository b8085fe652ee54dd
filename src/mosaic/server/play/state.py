"""Shared state of a match, what viewers may do to it, and how each of them sees it.

One lock guards everything. Screens call the methods from any thread; the match's own thread waits on the same lock
until something changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict

from mosaic.core.ids import AgentID, Json, JsonObject
from mosaic.policies.mapping import PolicyMapping
from mosaic.server.play.advice import Advice
from mosaic.server.play.clicks import Spot, as_json, next_spots
from mosaic.server.play.episode import CurrentEpisode, MatchEndedError, MatchPhase
from mosaic.server.play.keys import KeyBinding
from mosaic.server.play.messages import MatchRequest, Restart
from mosaic.server.play.pace import Pace
from mosaic.server.play.participants import HumanPlayers, MatchViewers, PolicyAssignments, Viewer

SHOWN_MOVES = 300
SHOWN_BINDINGS = 80


class MatchState:
    """Shared state of a match. Methods take the lock themselves, except those that say otherwise."""

    def __init__(self, match_id: str, request: MatchRequest, clock: Callable[[], float]) -> None:
        self.id, self.request = match_id, request
        self.viewers = MatchViewers(clock)
        self.changed = self.viewers.changed
        self.assignments = PolicyAssignments(PolicyMapping.of(request.agents))
        self.pace = Pace(request.pace, request.rate_hz, clock)
        self.episode = CurrentEpisode(request.seed)
        self.players = HumanPlayers(self.episode, self.assignments, self.viewers, self.pace)
        self.restart_request: Restart | None = None
        self.ending = ""  # why it is to end
        self.note = ""
        self.recording, self.kept = request.record, list[str]()
        self.thinking = False
        self.advice: Advice | None = None

    def join(self, viewer: Viewer) -> None:
        with self.changed:
            self.check_alive()
            self.viewers.join(viewer)

    def leave(self, viewer: Viewer) -> None:
        with self.changed:
            self.viewers.leave(viewer)

    def act(self, viewer: Viewer, agent: AgentID | None, action: Json) -> None:
        with self.changed:
            self.check_alive()
            self.players.act(viewer, agent, action)

    def type_move(self, viewer: Viewer, agent: AgentID | None, text: str) -> None:
        with self.changed:
            self.check_alive()
            self.players.type_move(viewer, agent, text)

    def press(self, viewer: Viewer, agent: AgentID | None, spot: str) -> None:
        with self.changed:
            self.check_alive()
            self.players.press(viewer, agent, spot)

    def click(self, viewer: Viewer, agent: AgentID | None, x: float, y: float) -> None:
        with self.changed:
            self.check_alive()
            self.players.click(viewer, agent, x, y)

    def key(self, viewer: Viewer, code: str, key: str, down: bool) -> None:
        with self.changed:
            self.check_alive()
            self.players.key(viewer, code, key, down)

    def axes(self, viewer: Viewer, values: tuple[float, ...]) -> None:
        viewer.axes = values  # one assignment: the next step reads the old or the new

    def bind(self, viewer: Viewer, bindings: list[KeyBinding] | None) -> None:
        with self.changed:
            self.players.bind(viewer, bindings)

    def pause(self, on: bool) -> None:
        with self.changed:
            self.pace.pause(on)
            self.viewers.tell()

    def step_once(self) -> None:
        with self.changed:
            self.pace.step_once()
            self.viewers.tell()

    def set_rate(self, hz: float) -> None:
        with self.changed:
            self.pace.set_rate(hz)
            self.viewers.tell()

    def restart(self, request: Restart) -> None:
        with self.changed:
            self.check_alive()
            self.restart_request = request
            self.viewers.tell()

    def record(self, on: bool) -> None:
        with self.changed:
            self.recording = on
            self.viewers.tell()

    def begin_episode(self) -> None:
        with self.changed:
            self.episode.begin()
            self.players.begin()
            self.pace.begin()
            self.note, self.advice = "", None

    def check_alive(self) -> None:
        """Raise if the match has ended. The lock is held by the caller."""
        if self.episode.phase is MatchPhase.ENDED:
            raise MatchEndedError(f"This match has ended: {self.ending or self.episode.error}")


def view_of(state: MatchState, viewer: Viewer | None = None) -> JsonObject:
    """Return the state for a viewer; without one, as for a spectator."""
    with state.changed:
        return _view(state, viewer)


def _view(state: MatchState, viewer: Viewer | None) -> JsonObject:
    episode, pace = state.episode, state.pace
    mine = [] if viewer is None else state.players.mine(viewer)
    chooser = next((agent for agent in episode.acting if agent in mine and agent not in state.players.chosen), None)
    path = () if viewer is None or chooser is None else viewer.path
    choices = () if chooser is None else episode.choices.get(chooser, ())
    others = next_spots(choices, ()) if path else []
    first = mine[0] if mine else None
    return {
        "type": "state",
        "match_id": state.id,
        "env": state.request.environment.id if episode.spec is None else episode.spec.env_id,
        "phase": episode.phase,
        "paused": pace.paused,
        "real_time": pace.real_time,
        "rate_hz": pace.rate_hz,
        "episode": episode.number,
        "seed": episode.seed,
        "step": episode.step,
        "viewers": len(state.viewers.all),
        "recording": state.recording,
        "kept": list[Json](state.kept),
        "error": episode.error,
        "note": state.note,
        "result": episode.result,
        "board": [list[Json](row) for row in episode.view.cells],
        "text": episode.view.text,
        "agents": [_agent(state, agent, mine) for agent in episode.agents],
        "chooser": chooser,
        "path": list[Json](path),
        "spots": [as_json(spot) for spot in next_spots(choices, path)],
        "others": [as_json(spot) for spot in others if spot.id not in path],  # would start another choice
        "selected": [as_json(spot) for spot in _pressed(state, chooser, path)],
        "keys": [] if viewer is None or first is None else _keys(state, viewer, mine),
        "own_keys": viewer is not None and viewer.bindings is not None,
        "axes": episode.axes_of(first) if first is not None else 0,
        "moves": [asdict(move) for move in episode.moves[-SHOWN_MOVES:]],
        "thinking": state.thinking,
        "advice": None if state.advice is None else _finite(state.advice),
    }


def _agent(state: MatchState, agent: AgentID, mine: list[AgentID]) -> Json:
    return {
        "agent": agent,
        "policy": state.assignments.policy_of(agent),
        "human": state.assignments.is_human(agent),
        "mine": agent in mine,
        "acting": agent in state.episode.acting and agent not in state.players.chosen,
        "back": state.assignments.back_of(agent),
        "return": state.episode.returns.get(agent, 0.0),
    }


def _pressed(state: MatchState, chooser: AgentID | None, path: tuple[str, ...]) -> tuple[Spot, ...]:
    if chooser is None or not path:
        return ()
    for choice in state.episode.choices.get(chooser, ()):
        if tuple(spot.id for spot in choice.spots[: len(path)]) == path:
            return choice.spots[: len(path)]
    return ()


def _keys(state: MatchState, viewer: Viewer, mine: list[AgentID]) -> list[Json]:
    rows: list[Json] = []
    for agent in mine[:2]:
        for binding in state.players.bindings_of(viewer, agent):
            rows.append({**binding.model_dump(mode="json"), "agent": agent if len(mine) > 1 else binding.agent})
    return rows[:SHOWN_BINDINGS]


def _finite(advice: Advice) -> Json:
    """Return the advice without an infinite value, which JSON does not have."""
    value = advice.value
    return {**asdict(advice), "value": value if value is None or math.isfinite(value) else None}
