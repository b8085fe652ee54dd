"""State of a match, as one of its viewers sees it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from mosaic.core.ids import AgentID
from mosaic.server.play.clicks import as_json, next_spots
from mosaic.server.play.participants import Viewer
from mosaic.server.play.state import MatchState

SHOWN_MOVES = 300
SHOWN_BINDINGS = 80


def view_of(state: MatchState, viewer: Viewer | None = None) -> dict[str, Any]:
    """Return the state for a viewer; without one, as for a spectator."""
    with state.changed:
        return _view(state, viewer)


def _view(state: MatchState, viewer: Viewer | None) -> dict[str, Any]:
    mine = [] if viewer is None else state.mine(viewer)
    acting = state.acting
    chooser = next((agent for agent in acting if agent in mine and agent not in state.answers), None)
    path = () if viewer is None or chooser is None else viewer.path
    spots = [] if chooser is None else next_spots(state.choices.get(chooser, ()), path)
    others = [] if chooser is None or not path else next_spots(state.choices.get(chooser, ()), ())
    seated = mine[0] if mine else None
    return {
        "type": "state",
        "match_id": state.id,
        "env": state.request.environment.id if state.spec is None else state.spec.env_id,
        "phase": state.phase,
        "paused": state.paused,
        "real_time": state.real_time,
        "rate_hz": state.rate_hz,
        "episode": state.episode,
        "seed": state.seed,
        "step": state.step,
        "viewers": len(state.viewers),
        "recording": state.recording,
        "kept": list(state.kept),
        "error": state.error,
        "note": state.note,
        "result": state.result,
        "agents": [_agent(state, agent, mine) for agent in state.agents],
        "chooser": chooser,
        "path": list(path),
        "spots": [as_json(spot) for spot in spots],
        "others": [as_json(spot) for spot in others if spot.id not in path],  # would start another choice
        "selected": [as_json(spot) for spot in _pressed(state, chooser, path)],
        "keys": [] if viewer is None or seated is None else _keys(state, viewer, mine),
        "own_keys": viewer is not None and viewer.bindings is not None,
        "axes": state.axes_of(seated) if seated is not None else 0,
        "moves": [asdict(move) for move in state.moves[-SHOWN_MOVES:]],
        "thinking": state.thinking,
        "advice": None if state.advice is None else _finite(asdict(state.advice)),
    }


def _agent(state: MatchState, agent: AgentID, mine: list[AgentID]) -> dict[str, Any]:
    return {
        "agent": agent,
        "policy": state.assignments.policy_of(agent),
        "human": state.assignments.is_human(agent),
        "mine": agent in mine,
        "acting": agent in state.acting and agent not in state.answers,
        "back": state.assignments.back_of(agent),
        "return": state.returns.get(agent, 0.0),
    }


def _pressed(state: MatchState, chooser: AgentID | None, path: tuple[str, ...]) -> list[Any]:
    if chooser is None or not path:
        return []
    for choice in state.choices.get(chooser, ()):
        if tuple(spot.id for spot in choice.spots[: len(path)]) == path:
            return list(choice.spots[: len(path)])
    return []


def _keys(state: MatchState, viewer: Viewer, mine: list[AgentID]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for agent in mine[:2]:
        for binding in state.bindings_of(viewer, agent):
            rows.append({**binding.model_dump(mode="json"), "agent": agent if len(mine) > 1 else binding.agent})
    return rows[:SHOWN_BINDINGS]


def _finite(advice: dict[str, Any]) -> dict[str, Any]:
    """Replace infinities, which JSON does not have."""
    value = advice["value"]
    return {**advice, "value": value if value is None or math.isfinite(value) else None}
