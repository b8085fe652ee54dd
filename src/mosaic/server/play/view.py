"""State of a match, as one of its viewers sees it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from mosaic.core.ids import AgentID
from mosaic.server.play.clicks import as_json, next_spots
from mosaic.server.play.seats import Viewer
from mosaic.server.play.state import MatchState

SHOWN_MOVES = 300
SHOWN_BINDINGS = 80


def view_of(table: MatchState, viewer: Viewer | None = None) -> dict[str, Any]:
    """Return the state for a viewer; without one, as for a spectator."""
    with table.changed:
        return _view(table, viewer)


def _view(table: MatchState, viewer: Viewer | None) -> dict[str, Any]:
    mine = [] if viewer is None else table.mine(viewer)
    acting = table.acting
    chooser = next((agent for agent in acting if agent in mine and agent not in table.answers), None)
    path = () if viewer is None or chooser is None else viewer.path
    spots = [] if chooser is None else next_spots(table.choices.get(chooser, ()), path)
    others = [] if chooser is None or not path else next_spots(table.choices.get(chooser, ()), ())
    seated = mine[0] if mine else None
    return {
        "type": "state",
        "match_id": table.id,
        "env": table.request.environment.id if table.spec is None else table.spec.env_id,
        "phase": table.phase,
        "paused": table.paused,
        "real_time": table.real_time,
        "rate_hz": table.rate_hz,
        "episode": table.episode,
        "seed": table.seed,
        "step": table.step,
        "viewers": len(table.viewers),
        "recording": table.recording,
        "kept": list(table.kept),
        "error": table.error,
        "note": table.note,
        "result": table.result,
        "agents": [_agent(table, agent, mine) for agent in table.agents],
        "chooser": chooser,
        "path": list(path),
        "spots": [as_json(spot) for spot in spots],
        "others": [as_json(spot) for spot in others if spot.id not in path],  # would start another choice
        "selected": [as_json(spot) for spot in _pressed(table, chooser, path)],
        "keys": [] if viewer is None or seated is None else _keys(table, viewer, mine),
        "own_keys": viewer is not None and viewer.bindings is not None,
        "axes": table.axes_of(seated) if seated is not None else 0,
        "moves": [asdict(move) for move in table.moves[-SHOWN_MOVES:]],
        "thinking": table.thinking,
        "advice": None if table.advice is None else _finite(asdict(table.advice)),
    }


def _agent(table: MatchState, agent: AgentID, mine: list[AgentID]) -> dict[str, Any]:
    return {
        "agent": agent,
        "policy": table.seats.policy_of(agent),
        "human": table.seats.is_human(agent),
        "mine": agent in mine,
        "acting": agent in table.acting and agent not in table.answers,
        "back": table.seats.back_of(agent),
        "return": table.returns.get(agent, 0.0),
    }


def _pressed(table: MatchState, chooser: AgentID | None, path: tuple[str, ...]) -> list[Any]:
    if chooser is None or not path:
        return []
    for choice in table.choices.get(chooser, ()):
        if tuple(spot.id for spot in choice.spots[: len(path)]) == path:
            return list(choice.spots[: len(path)])
    return []


def _keys(table: MatchState, viewer: Viewer, mine: list[AgentID]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for agent in mine[:2]:
        for binding in table.bindings_of(viewer, agent):
            rows.append({**binding.model_dump(mode="json"), "agent": agent if len(mine) > 1 else binding.agent})
    return rows[:SHOWN_BINDINGS]


def _finite(advice: dict[str, Any]) -> dict[str, Any]:
    """Replace infinities, which JSON does not have."""
    value = advice["value"]
    return {**advice, "value": value if value is None or math.isfinite(value) else None}
