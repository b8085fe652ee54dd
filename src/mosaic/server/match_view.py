"""How a match stands, as one of its viewers sees it."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from mosaic.core.ids import AgentID
from mosaic.server.match_actions import as_json, next_spots
from mosaic.server.match_seats import Viewer

if TYPE_CHECKING:
    from mosaic.server.match import Match

SHOWN_MOVES = 300
SHOWN_BINDINGS = 80


def view_of(match: Match, viewer: Viewer | None) -> dict[str, Any]:
    """To be called under the match's lock."""
    mine = [] if viewer is None else match.mine(viewer)
    acting = match.acting
    chooser = next((agent for agent in acting if agent in mine and agent not in match.answered), None)
    path = () if viewer is None or chooser is None else viewer.path
    spots = [] if chooser is None else next_spots(match.choices_of(chooser), path)
    others = [] if chooser is None or not path else next_spots(match.choices_of(chooser), ())
    seated = mine[0] if mine else None
    return {
        "type": "state",
        "match_id": match.id,
        "env": match.request.environment.id if match.spec is None else match.spec.env_id,
        "phase": match.phase,
        "paused": match.paused,
        "real_time": match.real_time,
        "rate_hz": match.rate_hz,
        "episode": match.episode,
        "seed": match.seed,
        "step": match.step,
        "viewers": len(match.viewers),
        "recording": match.recording,
        "kept": list(match.kept),
        "error": match.error,
        "note": match.note,
        "result": match.result,
        "agents": [_agent(match, agent, mine) for agent in match.agents],
        "chooser": chooser,
        "path": list(path),
        "spots": [as_json(spot) for spot in spots],
        "others": [as_json(spot) for spot in others if spot.id not in path],  # what a press would begin anew
        "selected": [as_json(spot) for spot in _pressed(match, chooser, path)],
        "keys": [] if viewer is None or seated is None else _keys(match, viewer, mine),
        "own_keys": viewer is not None and viewer.bindings is not None,
        "axes": match.axes_of(seated) if seated is not None else 0,
        "moves": [asdict(move) for move in match.moves[-SHOWN_MOVES:]],
        "thinking": match.thinking,
        "advice": None if match.advice is None else _finite(asdict(match.advice)),
    }


def _agent(match: Match, agent: AgentID, mine: list[AgentID]) -> dict[str, Any]:
    return {
        "agent": agent,
        "policy": match.seats.policy_of(agent),
        "human": match.seats.is_human(agent),
        "mine": agent in mine,
        "acting": agent in match.acting and agent not in match.answered,
        "back": match.seats.back_of(agent),
        "return": match.returns.get(agent, 0.0),
    }


def _pressed(match: Match, chooser: AgentID | None, path: tuple[str, ...]) -> list[Any]:
    if chooser is None or not path:
        return []
    for choice in match.choices_of(chooser):
        if tuple(spot.id for spot in choice.spots[: len(path)]) == path:
            return list(choice.spots[: len(path)])
    return []


def _keys(match: Match, viewer: Viewer, mine: list[AgentID]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for agent in mine[:2]:
        for binding in match.bindings_of(viewer, agent):
            rows.append({**binding.model_dump(mode="json"), "agent": agent if len(mine) > 1 else None})
    return rows[:SHOWN_BINDINGS]


def _finite(advice: dict[str, Any]) -> dict[str, Any]:
    """JSON knows no infinity."""
    value = advice["value"]
    return {**advice, "value": value if value is None or math.isfinite(value) else None}
