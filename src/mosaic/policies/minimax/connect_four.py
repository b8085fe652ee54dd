"""Values of connect four positions and their best columns."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.compiled.board_games.connect_four_bits import (
    BOARD,
    CELLS,
    COLUMN,
    COLUMNS,
    PITCH,
    ROWS,
    has_four,
    landing_cells,
    winning_cells,
)
from mosaic.policies.minimax.connect_four_book import BOOK_PLY, book_value
from mosaic.policies.minimax.connect_four_search import Table, new_scratch, new_table, reaches
from mosaic.policies.minimax.games import Verdict

SHAPE = (ROWS, COLUMNS, 2)  # top row first; plane 0 holds the mover's stones
ACTIONS = COLUMNS


class ConnectFourBoard(NamedTuple):
    """Stones as bits: 7 per column from the left, the lowest cell first, the seventh bit always 0."""

    mine: int  # of the player to move
    theirs: int


EMPTY = ConnectFourBoard(0, 0)
_BITS = np.array([[1 << PITCH * column + row for column in range(COLUMNS)] for row in reversed(range(ROWS))])


@cache
def _table() -> Table:
    """Return the table of the whole process; its entries hold for a position in any search, so it can be shared."""
    return new_table()


def read_board(observation: NDArray[np.generic]) -> ConnectFourBoard:
    """Read the observation that PettingZoo gives the player to move."""
    mine, theirs = (int(_BITS[observation[:, :, plane] != 0].sum()) for plane in (0, 1))
    return ConnectFourBoard(mine, theirs)


def landings(board: ConnectFourBoard) -> dict[int, int]:
    """Return the landing cell of each open column."""
    reach = int(landing_cells(np.uint64(board.mine | board.theirs)))
    cells = ((column, reach & int(COLUMN) << PITCH * column) for column in range(COLUMNS))
    return {column: cell for column, cell in cells if cell}


def drop(board: ConnectFourBoard, column: int) -> ConnectFourBoard:
    """Return the board after a move, seen by the other player."""
    return ConnectFourBoard(board.theirs, board.mine | landings(board)[column])


def value(board: ConnectFourBoard, depth: int | None = None) -> int:
    """Return 1, 0 or -1 for the player to move; unfinished games after `depth` plies are worth 0."""
    if has_four(np.uint64(board.theirs)):
        return -1
    if board.mine | board.theirs == BOARD:
        return 0
    return judge(board, depth=depth).value


def best_moves(board: ConnectFourBoard, depth: int | None = None) -> tuple[int, ...]:
    return judge(board, depth=depth).moves


def judge(board: ConnectFourBoard, legal: Iterable[int] | None = None, depth: int | None = None) -> Verdict:
    """Return the best of the legal columns (default: all open ones) and their value.

    Among equally good columns one that wins at once comes first, and a lost position is defended against a loss in one
    move as far as the depth sees it.
    """
    cells = landings(board)
    columns = tuple(sorted(cells if legal is None else legal))
    wins = _wins_in_one(board)
    if winning := tuple(column for column in columns if cells[column] & wins):
        return Verdict(1, winning)
    after = {column: ConnectFourBoard(board.theirs, board.mine | cells[column]) for column in columns}
    ply = (board.mine | board.theirs).bit_count()
    horizon = CELLS if depth is None else min(ply + depth, CELLS)

    def worth(goal: int, candidates: tuple[int, ...]) -> tuple[int, ...]:
        """Return the columns worth at least the goal: the opponent cannot keep the mover below it."""
        return tuple(column for column in candidates if not _reaches(after[column], ply + 1, 1 - goal, horizon))

    second_moves = ply % 2 == 1
    candidates = worth(0, columns) if second_moves else columns  # the second player loses more often than it wins
    if winning := worth(1, candidates):
        return Verdict(1, winning)
    if holding := candidates if second_moves else worth(0, columns):
        return Verdict(0, holding)
    parrying = tuple(column for column in columns if not _wins_in_one(after[column]))
    return Verdict(-1, parrying or columns)


def _wins_in_one(board: ConnectFourBoard) -> int:
    """Return the reachable cells that complete four for the player to move."""
    mine, mask = np.uint64(board.mine), np.uint64(board.mine | board.theirs)
    return int(winning_cells(mine, mask) & landing_cells(mask))


def _reaches(board: ConnectFourBoard, ply: int, goal: int, horizon: int) -> bool:
    """Return whether the board is worth at least the goal (1 or 0) for the player to move."""
    if ply < horizon and _wins_in_one(board):
        return True
    mask = board.mine | board.theirs
    if horizon == CELLS and ply <= BOOK_PLY:
        return book_value(board.mine, mask) >= goal
    return reaches(np.uint64(board.mine), np.uint64(mask), ply, goal == 1, horizon, _table(), new_scratch())
