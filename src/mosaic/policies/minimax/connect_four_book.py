"""Opening book for connect four: values from our own search, kept in a small file.

The file holds no positions: they are enumerated in a fixed order, with mirror images merged. Only the values of those
with BOOK_PLY stones and no win in one are stored, five to a byte; the others follow from them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.compiled.board_games.connect_four_bits import (
    COLUMN,
    COLUMNS,
    PITCH,
    Bits,
    landing_cells,
    mirrored,
    winning_cells,
)

BOOK_PLY = 8
FILE_NAME = "connect_four_book.bin"
_PLACES = 3 ** np.arange(5, dtype=np.uint8)  # of the digits in a byte: 3⁵ < 256


class Openings(NamedTuple):
    """All unfinished positions with the same number of stones, by ascending key."""

    keys: NDArray[np.uint64]
    mine: NDArray[np.uint64]
    mask: NDArray[np.uint64]

    @property
    def won(self) -> NDArray[np.bool_]:
        """Mask of the positions in which the mover wins at once."""
        won: NDArray[np.bool_] = winning_cells(self.mine, self.mask) & landing_cells(self.mask) != 0
        return won


def key_of(mine: Bits, mask: Bits) -> Bits:
    """Return a number that only a position and its mirror image share."""
    return np.minimum(mine + mask, mirrored(mine) + mirrored(mask))


def openings(ply: int) -> list[Openings]:
    """Return the openings for every number of stones from 0 to `ply`."""
    empty = np.zeros(1, np.uint64)
    levels = [Openings(empty, empty, empty)]
    for _ in range(ply):
        _, mine, mask = (np.concatenate(parts) for parts in zip(*_replies(levels[-1]), strict=True))
        keys, chosen = np.unique(key_of(mine, mask), return_index=True)
        levels.append(Openings(keys, mine[chosen], mask[chosen]))
    return levels


def book_value(mine: int, mask: int) -> int:
    """Return the value, for the mover, of an unfinished position with at most BOOK_PLY stones."""
    keys, values = _book()[mask.bit_count()]
    return int(values[np.searchsorted(keys, key_of(np.uint64(mine), np.uint64(mask)))])


@cache
def _book() -> list[tuple[NDArray[np.uint64], NDArray[np.int8]]]:
    """Return keys and values for every number of stones."""
    *earlier, last = openings(BOOK_PLY)
    values = np.ones(len(last.keys), np.int8)
    values[~last.won] = unpack(files(__package__).joinpath(FILE_NAME).read_bytes(), int(np.count_nonzero(~last.won)))
    book = [(last.keys, values)]
    for level in reversed(earlier):
        keys, following = book[0]
        values = np.where(level.won, 1, -1).astype(np.int8)
        for origin, mine, mask in _replies(level):
            np.maximum.at(values, origin, -following[np.searchsorted(keys, key_of(mine, mask))])
        book.insert(0, (level.keys, values))
    return book


def _replies(level: Openings) -> Iterator[tuple[NDArray[np.intp], NDArray[np.uint64], NDArray[np.uint64]]]:
    """Yield, per column, the indices of the positions moved from and the positions after moves that do not win."""
    wins = winning_cells(level.mine, level.mask)
    for column in range(COLUMNS):
        move = landing_cells(level.mask) & (COLUMN << np.uint64(PITCH * column))
        origin = np.flatnonzero((move != 0) & (move & wins == 0))
        yield origin, (level.mask ^ level.mine)[origin], (level.mask | move)[origin]


def pack(values: NDArray[np.int8]) -> bytes:
    """Pack values -1, 0, 1 as base-3 digits."""
    digits = np.pad(values + 1, (0, -len(values) % len(_PLACES))).astype(np.uint8)
    return bytes((digits.reshape(-1, len(_PLACES)) * _PLACES).sum(axis=1, dtype=np.uint8))


def unpack(data: bytes, count: int) -> NDArray[np.int8]:
    digits = np.frombuffer(data, np.uint8)[:, None] // _PLACES % 3
    return digits.ravel()[:count].astype(np.int8) - np.int8(1)
