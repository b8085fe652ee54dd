"""Human-readable names of actions."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from gymnasium.spaces import Discrete

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Turn
from mosaic.envs.chess import uci_of
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.envs.spaces import describe_space

CARD_NAMES = tuple(f"{rank}{suit}" for suit in "SHDC" for rank in "A23456789TJQK")
_HANABI = (  # for the usual two-player game: five cards in a hand
    *(f"{verb} card {place}" for verb in ("discard", "play") for place in range(1, 6)),
    *(f"show {kind}" for kind in ("red", "yellow", "green", "white", "blue", *"12345")),
)
_NAMES: Mapping[str, tuple[str, ...]] = {  # by family/name without version; the index in the tuple is the action
    "classic/gin_rummy": (
        *("score player 0", "score player 1", "draw", "take the discard", "dead hand", "gin"),
        *(f"{verb} {card}" for verb in ("discard", "knock with") for card in CARD_NAMES),
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
    "mosaic/kuhn_poker": ("pass", "bet"),
    "mosaic/gridworld": ("left", "down", "right", "up"),
    "gym/Taxi": ("south", "north", "east", "west", "pick-up", "drop-off"),
}


def names_by_action(env_id: EnvID) -> tuple[str, ...]:
    """Return the names indexed by action; empty if actions have no fixed names."""
    return _NAMES.get(split_version(env_id)[0], ())


# Names on screens only: a person on the terminal types numbers in these envs. Directions (up, left …) become keys.
_SHOWN: Mapping[str, tuple[str, ...]] = {
    "gym/LunarLander": ("rest", "left", "up", "right"),
    "gym/Acrobot": ("left", "rest", "right"),
    "gym/CarRacing": ("rest", "right", "left", "up", "down"),
    "butterfly/knights_archers_zombies": ("up", "down", "left", "right", "fire", "rest"),
    "butterfly/cooperative_pong": ("rest", "up", "down"),
    "sisl/pursuit": ("left", "right", "down", "up", "rest"),
}
_MPE_WAYS = ("rest", "left", "right", "down", "up")


_MEANINGS: Mapping[str, tuple[str, ...]] = {  # in the legend of keys, where a direction alone says too little
    "gym/LunarLander": ("no engine", "left engine", "main engine", "right engine"),
    "gym/Acrobot": ("torque left", "no torque", "torque right"),
    "gym/CarRacing": ("coast", "steer right", "steer left", "accelerate", "brake"),
    "butterfly/knights_archers_zombies": ("forward", "backward", "turn left", "turn right", "attack", "wait"),
}
_AXIS_ENDS: Mapping[str, tuple[tuple[str, str], ...]] = {  # least and greatest value of each axis
    "butterfly/pistonball": (("piston down", "piston up"),),
    "gym/Pendulum": (("torque clockwise", "torque counter-clockwise"),),
    "gym/MountainCarContinuous": (("push left", "push right"),),
    "gym/LunarLander": (("main engine off", "main engine"), ("left engine", "right engine")),
    "gym/LunarLanderContinuous": (("main engine off", "main engine"), ("left engine", "right engine")),
    "gym/CarRacing": (("steer left", "steer right"), ("no gas", "gas"), ("no brake", "brake")),
}


def meanings_of(env_id: EnvID, count: int) -> tuple[str, ...]:
    """Return what actions do, in words for the legend of keys; the names where there are no other words."""
    words = _MEANINGS.get(split_version(env_id)[0], ())
    return words if len(words) == count else names_of(env_id, count)


def axis_ends(env_id: EnvID, axes: int) -> tuple[tuple[str, str], ...]:
    """Return what the least and the greatest value of each axis of a continuous action do; empty if unknown."""
    ends = _AXIS_ENDS.get(split_version(env_id)[0], ())
    return ends if len(ends) == axes else ()


def names_of(env_id: EnvID, count: int) -> tuple[str, ...]:
    """Return the names by action index, empty if actions have no names; `count` is the agent's number of actions."""
    if env_id.startswith("mpe/"):
        return _mpe_names(count)
    names = _SHOWN.get(split_version(env_id)[0]) or names_by_action(env_id)
    return names if len(names) == count else ()  # an env's options may change its actions


def _mpe_names(count: int) -> tuple[str, ...]:
    """Name the actions of an MPE agent, which moves, speaks, or both: then a word is added to each move."""
    ways = len(_MPE_WAYS)
    if count % ways:
        return tuple(f"say {word}" for word in range(count))
    spoken = tuple(f"say {word}, {way}" for word in range(1, count // ways) for way in _MPE_WAYS)
    return (*_MPE_WAYS, *spoken)


def _cell(action: int, count: int) -> str:
    """Return the cell's number along the rows, as people read them; the env numbers cells down the columns."""
    column, row = divmod(action, 3)
    return f"cell {3 * row + column + 1}"


def _vertex(action: int, count: int) -> str:
    """Name the points of Go as players do, without the letter I; the last action passes."""
    size = math.isqrt(count)
    column, row = divmod(action, size)  # the env draws its rows from left to right
    return "pass" if action == size * size else f"{GO_COLUMNS[column]}{size - row}"


GO_COLUMNS = "ABCDEFGHJKLMNOPQRST"
_PLACES: Mapping[str, Callable[[int, int], str]] = {  # of board games
    "classic/connect_four": lambda action, count: f"column {action + 1}",
    "classic/go": _vertex,
    "classic/tictactoe": _cell,
    "mosaic/tictactoe": _cell,
}


def place_name(game: str, action: int, count: int) -> str:
    """Return the name of an action of a board game (family/name) with this number of actions."""
    return _PLACES[game](action, count)


def legal_names(spec: EnvSpec, turn: Turn, agent: AgentID) -> dict[str, int]:
    """Return name → action for the agent's legal actions; actions without names are named by their numbers.

    Raise InputError where actions are not numbered choices.
    """
    space, mask = spec.action_spaces[agent], turn.action_masks.get(agent)
    if not isinstance(space, Discrete):
        raise InputError(f"Actions of {agent} in {spec.env_id} are {describe_space(space)}: they have no names.")
    known = action_names(spec, turn, agent)
    if known:
        return dict(known)
    low, count = int(space.start), int(space.n)
    legal = range(count) if mask is None else map(int, np.flatnonzero(mask))
    game, names = split_version(spec.env_id)[0], meanings_of(spec.env_id, count)
    if game in _PLACES:
        places = {place_name(game, action, count): action for action in legal}
        return {name: places[name] for name in sorted(places, key=lambda name: (len(name), name))}
    return {names[action] if names else str(action + low): action + low for action in legal}


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
