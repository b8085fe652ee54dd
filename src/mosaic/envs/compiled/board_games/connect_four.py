"""Connect four on bitboards, for many games at once.

Bits run column by column from the left and upwards within a column; the seventh bit of a column stays empty, so that no
line wraps around. A position is (mine, taken): the stones of the mover, and the stones of both.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit

ROWS, COLUMNS = 6, 7
_PITCH = ROWS + 1
_ONE, _TWO, _SIX = np.uint64(1), np.uint64(2), np.uint64(ROWS)
_PITCH_BITS = np.uint64(_PITCH)
_STEPS = (np.uint64(1), np.uint64(_PITCH), np.uint64(_PITCH + 1), np.uint64(_PITCH - 1))
_FULL = np.uint64(sum(((1 << ROWS) - 1) << _PITCH * column for column in range(COLUMNS)))
_COLUMN = np.uint64((1 << _PITCH) - 1)
_BOTTOM = np.uint64(sum(1 << _PITCH * column for column in range(COLUMNS)))

Words = NDArray[np.uint64]


@njit(cache=True, nogil=True, error_model="numpy")
def drop_stone(mine: np.uint64, taken: np.uint64, column: int) -> tuple[np.uint64, np.uint64, bool, bool]:
    """Return the next mover's view (mine, taken), whether the mover has won, and whether the game is over."""
    bottom = _ONE << (np.uint64(column) * _PITCH_BITS)
    after = taken | (taken + bottom)
    stones = mine | (after ^ taken)
    four = np.uint64(0)
    for step in _STEPS:
        pairs = stones & (stones >> step)
        four |= pairs & (pairs >> (step * _TWO))
    won = four != np.uint64(0)
    return after ^ stones, after, won, won or after == _FULL


@njit(cache=True, nogil=True, error_model="numpy")
def step_games(
    mine: Words, taken: Words, columns: NDArray[np.int64], reward: NDArray[np.float32], over: NDArray[np.uint8]
) -> None:
    """Drop one stone in every game, in place; `mine` and `taken` become the next mover's view.

    `reward` is the mover's, 1 for a win; the other gets its negative. The columns must have room.
    """
    for game in range(mine.shape[0]):
        mine[game], taken[game], won, done = drop_stone(mine[game], taken[game], columns[game])
        reward[game] = 1.0 if won else 0.0
        over[game] = 1 if done else 0


@njit(cache=True, nogil=True, error_model="numpy")
def show_games(mine: Words, taken: Words, observation: NDArray[np.int8], legal: NDArray[np.uint8]) -> None:
    """Write the movers' observations, [game, row from the top, column, mine or theirs], and which columns have room."""
    for game in range(mine.shape[0]):
        for column in range(COLUMNS):
            low = np.uint64(column * _PITCH)
            legal[game, column] = 1 - ((taken[game] >> (low + _SIX - _ONE)) & _ONE)
            for row in range(ROWS):
                place = low + np.uint64(ROWS - 1 - row)
                own = (mine[game] >> place) & _ONE
                observation[game, row, column, 0] = own
                observation[game, row, column, 1] = ((taken[game] >> place) & _ONE) - own


@njit(cache=True, nogil=True, error_model="numpy")
def open_columns(taken: np.uint64) -> int:
    """Return a bit set in which bit c is set if column c has room."""
    columns = 0
    for column in range(COLUMNS):
        top = (taken >> (np.uint64(column) * _PITCH_BITS + _SIX - _ONE)) & _ONE
        columns |= (1 - int(top)) << column
    return columns


@njit(cache=True, nogil=True, error_model="numpy")
def key_of(mine: np.uint64, taken: np.uint64) -> np.uint64:
    """Return a unique 49-bit number for the position; never 0.

    In every column the highest bit encodes how many stones there are, the bits below it which of them are mine.
    """
    return mine + taken + _BOTTOM


@njit(cache=True, nogil=True, error_model="numpy")
def position_of_key(key: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Return (mine, taken) of a key."""
    taken = np.uint64(0)
    for column in range(COLUMNS):
        low = np.uint64(column) * _PITCH_BITS
        stones = (key >> low) & _COLUMN
        filled = np.uint64(0)
        while stones > _ONE:
            stones >>= _ONE
            filled = (filled << _ONE) | _ONE
        taken |= filled << low
    return key - taken - _BOTTOM, taken


def read_position(observation: NDArray[Any]) -> tuple[np.uint64, np.uint64]:
    """Return (mine, taken) of PettingZoo's observation for the mover."""
    mine = theirs = 0
    for row, column in np.argwhere(observation[..., 0]).tolist():
        mine |= 1 << (column * _PITCH + ROWS - 1 - row)
    for row, column in np.argwhere(observation[..., 1]).tolist():
        theirs |= 1 << (column * _PITCH + ROWS - 1 - row)
    return np.uint64(mine), np.uint64(mine | theirs)
