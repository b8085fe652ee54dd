"""Games that minimax can play, found by env id."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import NamedTuple, Protocol, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version


class Verdict(NamedTuple):
    """Result of the search of one position."""

    value: int  # for the mover: 1 won, 0 drawn or undecided, -1 lost
    moves: tuple[int, ...]  # all equally good ones, in ascending order


# Env id without its version → the module that evaluates its positions; imported on demand, because connect four imports
# numba.
GAMES = {
    "classic/tictactoe": "mosaic.policies.minimax.tictactoe",
    "mosaic/tictactoe": "mosaic.policies.minimax.tictactoe",
    "classic/connect_four": "mosaic.policies.minimax.connect_four",
}


Board: TypeAlias = object  # of the game's own type, which only its module reads


class MinimaxGame(Protocol):
    """Interface of a module in GAMES."""

    ACTIONS: int
    SHAPE: tuple[int, ...]  # of an observation

    def read_board(self, observation: NDArray[np.generic]) -> Board: ...

    def judge(self, board: Board, legal: Iterable[int] | None = None, depth: int | None = None) -> Verdict: ...


def find_game(spec: EnvSpec) -> MinimaxGame:
    """Return the game of this env; raise an error that lists the supported envs otherwise."""
    name, _ = split_version(spec.env_id)
    if name not in GAMES:
        raise InputError(f"minimax cannot play {spec.env_id}. It knows: {', '.join(sorted(GAMES))} (any version).")
    game = cast(MinimaxGame, import_module(GAMES[name]))
    for agent, space in spec.observation_spaces.items():
        if space.shape != game.SHAPE:
            raise InputError(_unreadable(spec.env_id, agent, space.shape, game.SHAPE))
    return game


def _unreadable(env_id: EnvID, agent: str, shape: tuple[int, ...] | None, wanted: tuple[int, ...]) -> str:
    return (
        f"minimax reads the board of {env_id} from observations of shape {wanted}, but those of '{agent}' have "
        f"{shape}. Leave out the wrappers that change observations."
    )
