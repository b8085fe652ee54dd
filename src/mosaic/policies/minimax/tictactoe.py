"""Values of tic-tac-toe positions and their best cells."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.policies.minimax.games import Verdict

SHAPE = (3, 3, 2)  # plane 0 holds the mover's stones; the cell [i, j] is the action 3 * i + j
ACTIONS = CELLS = 9
LINES = tuple(
    sum(1 << cell for cell in cells)
    for cells in ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
)


class TicTacToeBoard(NamedTuple):
    """Stones as bits: cell 0 is the lowest."""

    mine: int  # of the player to move
    theirs: int


EMPTY = TicTacToeBoard(0, 0)


def read_board(observation: NDArray[np.generic]) -> TicTacToeBoard:
    """Read the observation that PettingZoo gives the player to move."""
    cells = observation.reshape(CELLS, 2).tolist()
    mine = sum(1 << cell for cell, (stone, _) in enumerate(cells) if stone)
    theirs = sum(1 << cell for cell, (_, stone) in enumerate(cells) if stone)
    return TicTacToeBoard(mine, theirs)


def moves(board: TicTacToeBoard) -> list[int]:
    taken = board.mine | board.theirs
    return [cell for cell in range(CELLS) if not taken >> cell & 1]


def place(board: TicTacToeBoard, cell: int) -> TicTacToeBoard:
    """Return the board after a move, seen by the other player."""
    return TicTacToeBoard(board.theirs, board.mine | 1 << cell)


def is_over(board: TicTacToeBoard) -> bool:
    return _has_line(board.theirs) or not moves(board)


def value(board: TicTacToeBoard, depth: int | None = None) -> int:
    """Return 1, 0 or -1 for the player to move; unfinished games after `depth` plies are worth 0."""
    empty = len(moves(board))
    return _value(board, empty if depth is None else min(depth, empty))


def best_moves(board: TicTacToeBoard, depth: int | None = None) -> tuple[int, ...]:
    return judge(board, depth=depth).moves


def judge(board: TicTacToeBoard, legal: Iterable[int] | None = None, depth: int | None = None) -> Verdict:
    """Return the best of the legal cells (default: all empty ones) and their value; no other criterion is used."""
    left = None if depth is None else depth - 1
    values = {cell: -value(place(board, cell), left) for cell in (moves(board) if legal is None else legal)}
    best = max(values.values())
    return Verdict(best, tuple(sorted(cell for cell in values if values[cell] == best)))


def solve() -> dict[TicTacToeBoard, int]:
    """Return the exact value of every reachable position, including finished ones."""
    values: dict[TicTacToeBoard, int] = {}
    waiting = [EMPTY]
    while waiting:
        board = waiting.pop()
        if board not in values:
            values[board] = value(board)
            waiting += [] if is_over(board) else [place(board, cell) for cell in moves(board)]
    return values


@cache
def _value(board: TicTacToeBoard, depth: int) -> int:
    if _has_line(board.theirs):
        return -1
    if depth == 0:
        return 0
    return max(-_value(place(board, cell), depth - 1) for cell in moves(board))


def _has_line(stones: int) -> bool:
    return any(stones & line == line for line in LINES)
