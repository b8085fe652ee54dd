"""Tic-tac-toe as arrays over all boards of three marks in nine cells."""

# compiled code uses this file

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.mdp.mdp import GameTables

IllegalMoves: TypeAlias = Literal["masked", "lost"]

CELLS = 9
POSITIONS = 3**CELLS
LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
EMPTY, MINE, THEIRS = 0, 1, 2
_WEIGHTS = 3 ** np.arange(CELLS, dtype=np.int64)
_GRID_WEIGHTS = _WEIGHTS.reshape(3, 3)  # cell [i, j] of an observation is the action 3 * i + j


def tictactoe_game(illegal: IllegalMoves = "masked") -> GameTables:
    """Return the game; a position is its base-3 number from the mover's view: cell i weighs 3**i, mine 1, theirs 2.

    `lost`: every cell may be chosen, and choosing a taken one loses at once.
    """
    boards = cells_of(np.arange(POSITIONS))
    free = boards == EMPTY
    continues = ~_has_line(boards, MINE) & ~_has_line(boards, THEIRS) & free.any(axis=1)
    next_state = np.empty((POSITIONS, CELLS), np.int32)
    won = np.empty((POSITIONS, CELLS), np.bool_)
    for action in range(CELLS):
        after = boards.copy()
        after[free[:, action], action] = MINE  # a taken cell keeps its mark
        won[:, action] = _has_line(after, MINE)
        next_state[:, action] = swapped(after) @ _WEIGHTS
    full = free.sum(axis=1) == 1
    reward = np.where(free, won, -1.0 if illegal == "lost" else 0.0).astype(np.float32)
    over = won | full[:, None] | ~free
    legal = (free if illegal == "masked" else np.ones_like(free)) & continues[:, None]
    return GameTables(next_state, reward, over.astype(np.uint8), legal.astype(np.uint8), start=0)


def cells_of(position: int | NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the marks of one position or an array of them, by cell."""
    return np.asarray(position)[..., None] // _WEIGHTS % 3


def swapped(cells: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the same board from the other player's view."""
    return -cells % 3


def position_of(observation: NDArray[np.int8]) -> int:
    """Return the position of an observation: [3, 3, 2], plane 0 holds the mover's marks."""
    return int(np.vdot(observation[..., 0] + 2 * observation[..., 1], _GRID_WEIGHTS))


def observation_of(position: int) -> NDArray[np.int8]:
    """Return the mover's observation of a position."""
    cells = cells_of(position).reshape(3, 3)
    return np.stack([cells == MINE, cells == THEIRS], axis=2).astype(np.int8)


def _has_line(boards: NDArray[np.int64], mark: int) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = np.any([(boards[:, line] == mark).all(axis=1) for line in LINES], axis=0)
    return found


def find_classic_game(config: EnvironmentConfig) -> GameTables:
    return tictactoe_game()


def find_own_game(config: EnvironmentConfig) -> GameTables:
    from mosaic.envs.families.mosaic import TicTacToeOptions, read_options

    return tictactoe_game(read_options(config, TicTacToeOptions).illegal)


def find_encoder(space: Space[object]) -> Callable[[NDArray[np.int8]], int] | None:
    return position_of if space.shape == (3, 3, 2) else None
