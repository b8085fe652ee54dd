"""Mosaic's own small environments."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypedDict, TypeVar

from pydantic import Field, ValidationError

from mosaic.config.sections import EnvironmentConfig, Incentives
from mosaic.core.errors import InputError, unknown
from mosaic.core.reference import Options, explain
from mosaic.envs.compiled.board_games.tictactoe import IllegalMoves
from mosaic.envs.compiled.mdp.gridworld import gridworld, read_map
from mosaic.envs.compiled.mdp.mdp import Mdp
from mosaic.envs.env import Env, EnvFacts
from mosaic.envs.family import EnvEntry
from mosaic.envs.toys.memory_tasks import MEMORY_TASKS, MemoryTask

_Model = TypeVar("_Model", bound=Options)
_ROOM = ("S....", ".##..", ".#..H", "...#.", "H...G")


class GridworldOptions(Options):
    map: str | tuple[str, ...] = Field(
        _ROOM,
        description="Rows as a list, or as one string with / between them: S start, G goal, H hole, # wall, . free.",
    )
    slip: float = Field(0.0, ge=0, le=1, description="Probability that a move goes to one of its two sides instead.")
    step_reward: float = Field(0.0, allow_inf_nan=False, description="Reward of every move, including the last.")
    max_steps: int = Field(200, ge=0, description="Truncate an episode after this many env steps; 0: never.")


class TicTacToeOptions(Options):
    illegal: IllegalMoves = Field("masked", description="Taken cells are masked, or choosing one loses the game (-1).")


class KuhnPokerOptions(Options):
    remember_card: bool = Field(False, description="Show the card at a player's first decision only: needs memory.")


class CatchPixelsOptions(Options):
    size: int = Field(16, ge=8, le=256, description="Width and height of the picture in pixels.")


class BlindPairOptions(Options):
    delay: int = Field(8, ge=1, le=100_000, description="Steps from the blind agent's answer to its reward.")
    tide: float = Field(
        5.0,
        ge=0,
        allow_inf_nan=False,
        description="Size of the random reward that one agent gains and the other loses; right answers give 1 in all.",
    )
    cues: int = Field(4, ge=2, le=100, description="Number of answers the blind agent can choose from.")


def gridworld_of(options: GridworldOptions) -> Mdp:
    return gridworld(options.map, slip=options.slip, step_reward=options.step_reward, time_limit=options.max_steps)


def _make_gridworld(config: EnvironmentConfig) -> Env:
    from mosaic.envs.adapters.gymnasium import GymnasiumEnv
    from mosaic.envs.compiled.drawing import draw_grid
    from mosaic.envs.compiled.mdp.mdp import MdpEnv

    options = read_options(config, GridworldOptions)
    mdp = gridworld_of(options)
    facts = EnvFacts(config, has_chance=options.slip > 0 or len(mdp.start_state) > 1)
    return GymnasiumEnv(MdpEnv(mdp, partial(draw_grid, read_map(options.map))), facts, aliases=False)


def _make_tictactoe(config: EnvironmentConfig) -> Env:
    from mosaic.envs.compiled.board_games.tictactoe_env import TicTacToeEnv

    options = read_options(config, TicTacToeOptions)
    facts = EnvFacts(config, turn_based=True, competitive=True, has_chance=False, **_declared("tictactoe"))
    return TicTacToeEnv(facts, options.illegal)


def _make_kuhn_poker(config: EnvironmentConfig) -> Env:
    from mosaic.envs.compiled.board_games.kuhn_poker import KuhnPokerEnv

    options = read_options(config, KuhnPokerOptions)
    facts = EnvFacts(config, turn_based=True, competitive=True, hidden_information=True, **_declared("kuhn_poker"))
    return KuhnPokerEnv(facts, remember_card=options.remember_card)


def _make_catch_pixels(config: EnvironmentConfig) -> Env:
    from mosaic.envs.adapters.gymnasium import GymnasiumEnv
    from mosaic.envs.toys.catch_pixels import CatchPixels

    options = read_options(config, CatchPixelsOptions)
    return GymnasiumEnv(CatchPixels(options.size), EnvFacts(config), aliases=False)


def _make_memory_task(config: EnvironmentConfig) -> Env:
    from mosaic.envs.adapters.gymnasium import GymnasiumEnv

    rules = read_options(config, MEMORY_TASKS[config.env_id]).rules()
    return GymnasiumEnv(MemoryTask(rules), EnvFacts(config), aliases=False)


def _make_blind_pair(config: EnvironmentConfig) -> Env:
    from mosaic.envs.toys.blind_pair import BlindPair

    options = read_options(config, BlindPairOptions)
    return BlindPair(EnvFacts(config, **_declared("blind_pair")), options.delay, options.tide, options.cues)


class _Declared(TypedDict):
    incentives: Incentives
    shared_reward: bool


# The two of the pair want right answers, and the tide takes from one what it gives to the other.
_SEVERAL_AGENTS: dict[str, Incentives] = {
    "blind_pair": "mixed",
    "kuhn_poker": "competitive",
    "tictactoe": "competitive",
}


def _declared(name: str) -> _Declared:
    return {"incentives": _SEVERAL_AGENTS[name], "shared_reward": False}


_MAKERS: dict[str, tuple[Callable[[EnvironmentConfig], Env], tuple[str, ...]]] = {
    "blind_pair": (_make_blind_pair, ("parallel", "auto")),
    "catch_pixels": (_make_catch_pixels, ("gym", "auto")),
    "kuhn_poker": (_make_kuhn_poker, ("aec", "auto")),
    "gridworld": (_make_gridworld, ("gym", "auto")),
    **dict.fromkeys(MEMORY_TASKS, (_make_memory_task, ("gym", "auto"))),
    "tictactoe": (_make_tictactoe, ("aec", "auto")),
}


OPTIONS: dict[str, type[Options]] = {
    "blind_pair": BlindPairOptions,
    "catch_pixels": CatchPixelsOptions,
    "kuhn_poker": KuhnPokerOptions,
    "gridworld": GridworldOptions,
    **MEMORY_TASKS,
    "tictactoe": TicTacToeOptions,
}


class MosaicFamily:
    def entries(self) -> list[EnvEntry]:
        return [
            EnvEntry(f"mosaic/{name}", True, None, **_declared(name))
            if name in _SEVERAL_AGENTS
            else EnvEntry(f"mosaic/{name}", True, None, "single")
            for name in _MAKERS
        ]

    def make(self, config: EnvironmentConfig) -> Env:
        if config.env_id not in _MAKERS:
            raise unknown("environment", config.id, (f"mosaic/{name}" for name in _MAKERS), "Type: mosaic envs mosaic")
        maker, api_types = _MAKERS[config.env_id]
        if config.api_type not in api_types:
            raise InputError(f"{config.id} has the api_type '{api_types[0]}', not '{config.api_type}'.")
        return maker(config)


def read_options(config: EnvironmentConfig, model: type[_Model]) -> _Model:
    """Return the env's options, validated."""
    try:
        return model.model_validate(config.options)
    except ValidationError as error:
        raise InputError(f"{config.id}: {explain(error, model)}") from error


family = MosaicFamily()
