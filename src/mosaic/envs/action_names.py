"""Human-readable names of actions."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Turn
from mosaic.envs.chess import uci_of
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version

_CARDS = tuple(f"{rank}{suit}" for suit in "SHDC" for rank in "A23456789TJQK")
_HANABI = (  # for the usual two-player game: five cards in a hand
    *(f"{verb} card {place}" for verb in ("discard", "play") for place in range(1, 6)),
    *(f"show {kind}" for kind in ("red", "yellow", "green", "white", "blue", *"12345")),
)
_NAMES: Mapping[str, tuple[str, ...]] = {  # by family/name without version; the index in the tuple is the action
    "classic/gin_rummy": (
        *("score player 0", "score player 1", "draw", "take the discard", "dead hand", "gin"),
        *(f"{verb} {card}" for verb in ("discard", "knock with") for card in _CARDS),
    ),
    "classic/hanabi": _HANABI,
    "classic/leduc_holdem": ("call", "raise", "fold", "check"),
    "classic/texas_holdem": ("call", "raise", "fold", "check"),
    "classic/texas_holdem_no_limit": ("fold", "call", "half-pot", "pot", "all-in"),
    "classic/rps": ("rock", "paper", "scissors"),
    "gym/Blackjack": ("stick", "hit"),
    "gym/CartPole": ("left", "right"),
    "gym/CliffWalking": ("up", "right", "down", "left"),
    "gym/CliffWalkingSlippery": ("up", "right", "down", "left"),
    "gym/FrozenLake": ("left", "down", "right", "up"),
    "gym/FrozenLake8x8": ("left", "down", "right", "up"),
    "gym/MountainCar": ("left", "wait", "right"),
    "mosaic/gridworld": ("left", "down", "right", "up"),
    "gym/Taxi": ("south", "north", "east", "west", "pick-up", "drop-off"),
}


def names_by_action(env_id: EnvID) -> tuple[str, ...]:
    """Return the names indexed by action; empty if actions have no fixed names."""
    return _NAMES.get(split_version(env_id)[0], ())


def action_names(spec: EnvSpec, turn: Turn, agent: AgentID) -> Mapping[str, int]:
    """Return name → action for the agent's legal actions; empty if actions have no names."""
    mask = turn.action_masks.get(agent)
    env_id = split_version(spec.env_id)[0]
    fen = turn.infos.get(agent, {}).get("fen")
    if env_id == "classic/chess" and isinstance(fen, str) and mask is not None:
        return {uci_of(int(action), fen): int(action) for action in np.flatnonzero(mask)}
    names = _NAMES.get(env_id, ())
    if mask is not None and len(mask) != len(names):
        return {}  # its options changed its actions
    return {name: action for action, name in enumerate(names) if mask is None or mask[action]}
