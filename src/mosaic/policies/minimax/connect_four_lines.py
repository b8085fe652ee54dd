"""Fixed-depth connect four search that counts open lines at its leaves: a stronger, but not exact, player.

A line of four cells in which only one side has stones is worth 1, 4 or 16 to it for one, two or three stones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.board_games.connect_four_bits import COLUMNS, PITCH, ROWS
from mosaic.policies.minimax.connect_four import ConnectFourBoard, landings
from mosaic.policies.minimax.games import Verdict

_WON = 100_000
_FULL = np.int64(sum(((1 << ROWS) - 1) << PITCH * column for column in range(COLUMNS)))
_ORDER = (3, 2, 4, 1, 5, 0, 6)
_COLUMN_CELLS = np.int64((1 << ROWS) - 1)


def _lines() -> Iterator[int]:
    for column in range(COLUMNS):
        for row in range(ROWS):
            for across, up in ((1, 0), (0, 1), (1, 1), (1, -1)):
                cells = [(column + k * across, row + k * up) for k in range(4)]
                if all(0 <= x < COLUMNS and 0 <= y < ROWS for x, y in cells):
                    yield sum(1 << (PITCH * x + y) for x, y in cells)


_LINES = tuple(_lines())  # 69


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _stones(bits: int) -> int:
    count = 0
    while bits:
        bits &= bits - 1
        count += 1
    return count


@njit(cache=True, nogil=True, error_model="numpy")
def open_lines(mine: int, theirs: int) -> int:
    """Return the value of the lines to the owner of `mine`."""
    worth = 0
    for line in _LINES:
        own, other = mine & line, theirs & line
        if own and not other:
            worth += 1 << (2 * (_stones(own) - 1))
        elif other and not own:
            worth -= 1 << (2 * (_stones(other) - 1))
    return worth


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _four(stones: int) -> bool:
    found = 0
    for step in (1, PITCH, PITCH + 1, PITCH - 1):
        pairs = stones & (stones >> step)
        found |= pairs & (pairs >> (2 * step))
    return found != 0


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _landing(taken: int, column: int) -> np.int64:
    """Return the cell where a stone lands; 0 where the column is full."""
    return (taken + (np.int64(1) << (PITCH * column))) & (_COLUMN_CELLS << (PITCH * column))


@njit("int64(int64, int64, int64, int64, int64)", cache=True, nogil=True, error_model="numpy")
def search(mine: int, theirs: int, depth: int, alpha: int, beta: int) -> int:
    """Return the value for the mover, given that the other side has not won; an earlier win is worth more."""
    taken = mine | theirs
    if taken == _FULL:
        return 0
    if depth == 0:
        leaf: int = open_lines(mine, theirs)
        return leaf
    for column in range(COLUMNS):
        cell = _landing(taken, column)
        if cell and _four(mine | cell):
            return _WON + depth
    best = -10 * _WON
    for column in _ORDER:
        cell = _landing(taken, column)
        if cell:
            worth = -search(theirs, mine | cell, depth - 1, -beta, -alpha)
            best = max(best, worth)
            alpha = max(alpha, worth)
            if alpha >= beta:
                break
    return best


def judge_lines(board: ConnectFourBoard, legal: Iterable[int] | None, depth: int) -> Verdict:
    """Return all columns that are equally good at this depth."""
    cells = landings(board)
    worths = {}
    for column in sorted(cells if legal is None else legal):
        mine = board.mine | cells[column]
        if _four(mine):
            worths[column] = 2 * _WON
        elif mine | board.theirs == _FULL:
            worths[column] = 0
        else:
            worths[column] = -int(search(board.theirs, mine, depth - 1, -10 * _WON, 10 * _WON))
    best = max(worths.values())
    value = 1 if best >= _WON else -1 if best <= -_WON else 0
    return Verdict(value, tuple(column for column, worth in worths.items() if worth == best))
