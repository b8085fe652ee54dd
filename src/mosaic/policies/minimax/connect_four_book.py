"""What every connect four opening is worth: the results of our own search, kept in a small file.

The file holds no positions. They are enumerated in a fixed order, mirror images taken as one, and only the values of
those with BOOK_PLY stones are stored, five to a byte; what is worth an earlier one follows from its successors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from mosaic.policies.minimax.connect_four_search import BOARD, BOTTOM, COLUMNS, PITCH, has_four, winning_cells

BOOK_PLY = 7
FILE_NAME = "connect_four_book.bin"
_VALUES_PER_BYTE = 5

Position = tuple[int, int]  # stones of the mover, stones of both


def moves(mask: int) -> list[int]:
    """The cells within reach, from the left."""
    reach = (mask + BOTTOM) & BOARD
    return [cell for column in range(COLUMNS) if (cell := reach & (((1 << PITCH) - 1) << PITCH * column))]


def key(mine: int, mask: int) -> int:
    """A number that a position shares with its mirror image alone."""
    return min(mine + mask, _mirrored(mine) + _mirrored(mask))


def wins_in_one(mine: int, mask: int) -> int:
    """The cells within reach that complete four for the mover."""
    return int(winning_cells(np.uint64(mine), np.uint64(mask))) & (mask + BOTTOM)


def openings(ply: int) -> list[dict[int, Position]]:
    """For every number of stones up to this one: the positions that may go on, by key, in ascending order."""
    levels: list[dict[int, Position]] = [{0: (0, 0)}]
    for _ in range(ply):
        following = {
            key(mask ^ mine, mask | move): (mask ^ mine, mask | move)
            for mine, mask in levels[-1].values()
            for move in moves(mask)
            if not has_four(np.uint64(mine | move))
        }
        levels.append(dict(sorted(following.items())))
    return levels


@cache
def book() -> dict[int, int]:
    """Key → value for the mover, of every position with at most BOOK_PLY stones."""
    *earlier, last = openings(BOOK_PLY)
    values = dict(zip(last, unpack(files(__package__).joinpath(FILE_NAME).read_bytes(), len(last)), strict=True))
    for level in reversed(earlier):
        for name, (mine, mask) in level.items():
            replies = (values[key(mask ^ mine, mask | move)] for move in moves(mask))
            values[name] = 1 if wins_in_one(mine, mask) else -min(replies)
    return values


def pack(values: Sequence[int]) -> bytes:
    """Values -1, 0, 1 as digits to the base of 3."""
    return bytes(
        sum((value + 1) * 3**place for place, value in enumerate(values[start : start + _VALUES_PER_BYTE]))
        for start in range(0, len(values), _VALUES_PER_BYTE)
    )


def unpack(data: bytes, count: int) -> list[int]:
    values = [byte // 3**place % 3 - 1 for byte in data for place in range(_VALUES_PER_BYTE)]
    return values[:count]


def _mirrored(bits: int) -> int:
    columns = [(bits >> PITCH * column) & ((1 << PITCH) - 1) for column in range(COLUMNS)]
    return sum(stones << PITCH * column for column, stones in enumerate(reversed(columns)))
