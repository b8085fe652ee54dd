"""Tabular versions ("twins") of reference envs, and the mapping of observations to their states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID
from mosaic.core.reference import parse_options, split_reference
from mosaic.core.turn import Observation
from mosaic.envs.compiled.board_games.game import GameTables
from mosaic.envs.compiled.board_games.tictactoe import position_of, tictactoe_game
from mosaic.envs.compiled.mdp.blackjack import Hand, state_of
from mosaic.envs.compiled.mdp.mdp import Mdp, compile_mdp, shorter
from mosaic.envs.family import split_version

Twin: TypeAlias = Mdp | GameTables
Encoder: TypeAlias = Callable[[Observation], int]


def find_twin(config: EnvironmentConfig) -> Twin | None:
    """Return the twin of the env as configured, or None: there is none, or it does not implement these options."""
    make = _TWINS.get(_name(config.id))
    limits = _time_limits(config.wrappers)
    if make is None or limits is None:
        return None
    twin = make(config.model_copy(update={"wrappers": ()}))
    if not isinstance(twin, Mdp):
        return None if limits else twin
    for limit in limits:
        twin = twin._replace(time_limit=shorter(twin.time_limit, limit))
    return twin


def has_twin(env_id: EnvID) -> bool:
    """Return whether a twin of the env is known, for some of its options at least."""
    return _name(env_id) in _TWINS


def encode_observation(env_id: EnvID, space: Space[Any]) -> Encoder:
    """Return a function from an agent's observation in the reference env to the state of the twin.

    `space` is the observation space of the reference env.
    """
    name = _name(env_id)
    if name in _BOARDS and space.shape == (3, 3, 2):
        return position_of
    if name == "gym/Blackjack" and isinstance(space, spaces.Tuple):
        return _blackjack_state
    if isinstance(space, spaces.Discrete) and space.start == 0:
        return int
    raise InputError(
        f"{env_id} has observations in {space}, which are not states of a compiled twin. Twins: "
        f"{', '.join(sorted(_TWINS))} "
        "(any version, without wrappers that change observations), and envs with a Discrete space that starts at 0."
    )


def _name(env_id: EnvID) -> str:
    return split_version(env_id)[0]


def _time_limits(wrappers: Sequence[str]) -> list[int] | None:
    """Return the time limits of the wrappers; None if a wrapper does more than truncate."""
    from mosaic.envs.wrappers.limits import TimeLimitOptions

    limits = []
    for reference in wrappers:
        name, rest = split_reference(reference)
        if name != "time_limit":
            return None
        limits.append(int(parse_options(reference, rest, TimeLimitOptions).max_steps))
    return limits


def _from_table(config: EnvironmentConfig) -> Mdp:
    from mosaic.envs.catalog import make_env

    env = make_env(config)
    try:
        return compile_mdp(env)
    finally:
        env.close()


def _frozen_lake(config: EnvironmentConfig) -> Mdp | None:
    options = config.options
    if options.get("desc") is None and options.get("map_name", "") is None:  # a new random map at every creation
        return None
    return _from_table(config)


def _taxi(config: EnvironmentConfig) -> Mdp | None:
    return None if config.options.get("fickle_passenger") else _from_table(config)


def _gridworld(config: EnvironmentConfig) -> Mdp:
    from mosaic.envs.families.mosaic import GridworldOptions, gridworld_of, read_options

    return gridworld_of(read_options(config, GridworldOptions))


def _classic_tictactoe(config: EnvironmentConfig) -> GameTables:
    return tictactoe_game()


def _own_tictactoe(config: EnvironmentConfig) -> GameTables:
    from mosaic.envs.families.mosaic import TicTacToeOptions, read_options

    return tictactoe_game(read_options(config, TicTacToeOptions).illegal)


def _blackjack_state(observation: Observation) -> int:
    """Return the state; a 21 with a usable ace is read as a natural if those pay differently (same best action)."""
    total, card, usable = observation
    return state_of(Hand(int(total), int(usable)), int(card))


_BOARDS = ("classic/tictactoe", "mosaic/tictactoe")
_TWINS: Mapping[str, Callable[[EnvironmentConfig], Twin | None]] = {  # by family/name without version
    "gym/FrozenLake": _frozen_lake,
    "gym/FrozenLake8x8": _frozen_lake,
    "gym/CliffWalking": _from_table,
    "gym/CliffWalkingSlippery": _from_table,
    "gym/Taxi": _taxi,
    "gym/Blackjack": _from_table,
    "mosaic/gridworld": _gridworld,
    "mosaic/tictactoe": _own_tictactoe,
    "classic/tictactoe": _classic_tictactoe,
}
