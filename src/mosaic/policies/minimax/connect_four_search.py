"""Compiled search for a forced win or draw of the mover in connect four."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

import numpy as np
from numba import uint64
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.board_games import connect_four_bits as bits_of
from mosaic.envs.compiled.board_games.connect_four_bits import BOARD, BOTTOM, CELLS, COLUMNS, POSITION_BITS, Bits

Table = NDArray[np.uint64]  # one entry: horizon, position, and what is known of it
Scratch = NDArray[np.uint64]  # the ordered moves of every ply

TABLE_ENTRIES = (1 << 23) - 15  # a prime just below 64 MB
_TABLED_PLIES = 9  # nearer to the horizon, searching again is faster than a cache miss
_PEEKED_PLIES = 13  # nearer to the horizon, searching the moves is faster than looking all of them up first
_MIRRORED_UNTIL = 14  # later, few positions meet their mirror image

_WINS, _DOES_NOT_WIN, _DOES_NOT_LOSE, _LOSES = uint64(1), uint64(2), uint64(4), uint64(8)
_KNOWLEDGE_BITS, _KNOWLEDGE = uint64(4), uint64(15)
_POSITION_BITS, _POSITION = uint64(POSITION_BITS), uint64((1 << POSITION_BITS) - 1)
_ROWS_OF_FIRST = BOTTOM * uint64(0b0010101)  # cells the first player gets if the second always plays on top
_ODD_HEIGHTS = BOTTOM * uint64(0b0101010)
_NONE, _ONE = uint64(0), uint64(1)

# Number of fours through a cell: breaks ties between moves that make equally many threats.
_LINES = np.array(
    [
        [3, 4, 5, 5, 4, 3, 0],
        [4, 6, 8, 8, 6, 4, 0],
        [5, 8, 11, 11, 8, 5, 0],
        [7, 10, 13, 13, 10, 7, 0],
        [5, 8, 11, 11, 8, 5, 0],
        [4, 6, 8, 8, 6, 4, 0],
        [3, 4, 5, 5, 4, 3, 0],
    ],
    dtype=np.uint64,
).ravel()
_THREAT = uint64(64)  # more than any number of lines

Function = TypeVar("Function", bound=Callable[..., object])


def _compiled(function: Function) -> Function:
    return cast(Function, njit(cache=True, nogil=True)(function))


def new_table(entries: int = TABLE_ENTRIES) -> Table:
    """Create a table; threads may share it, since an entry is written whole and names its position."""
    return np.zeros(entries, np.uint64)


def new_scratch() -> Scratch:
    return np.zeros((CELLS, COLUMNS), np.uint64)


_landing_cells = _compiled(bits_of.landing_cells)
_has_four = _compiled(bits_of.has_four)
_winning_cells = _compiled(bits_of.winning_cells)
_mirrored = _compiled(bits_of.mirrored)


@_compiled
def _count(bits: Bits) -> Bits:
    bits -= (bits >> _ONE) & uint64(0x5555555555555555)
    bits = (bits & uint64(0x3333333333333333)) + ((bits >> uint64(2)) & uint64(0x3333333333333333))
    bits = (bits + (bits >> uint64(4))) & uint64(0x0F0F0F0F0F0F0F0F)
    return (bits * uint64(0x0101010101010101)) >> uint64(56)


@_compiled
def _holds_on_top(first: Bits, mask: Bits) -> bool:
    """Return whether the second player, who has just moved, can avoid losing by replying on top of every stone.

    Where two columns have odd heights, a stone in one of them is answered in the other once, so the first player gets
    either of the two cells.
    """
    odd = (mask + BOTTOM) & _ODD_HEIGHTS
    stones = first | (_ROWS_OF_FIRST & ~mask)
    if not odd:
        return not _has_four(stones)
    one = odd & (~odd + _ONE)
    other = odd ^ one
    if not other or other & (other - _ONE):
        return False
    return not _has_four(stones | one) and not _has_four(stones | other)


@_compiled
def _key(mine: Bits, mask: Bits, ply: int, horizon: int) -> Bits:
    position = mine + mask
    if ply <= _MIRRORED_UNTIL:
        position = min(position, _mirrored(mine) + _mirrored(mask))
    return (uint64(horizon) << _POSITION_BITS) | position


@_compiled
def _known(table: Table, key: Bits) -> Bits:
    entry = table[key % uint64(len(table))]
    return entry & _KNOWLEDGE if entry >> _KNOWLEDGE_BITS == key else _NONE


@_compiled
def _learn(table: Table, key: Bits, fact: Bits) -> None:
    table[key % uint64(len(table))] = (key << _KNOWLEDGE_BITS) | _known(table, key) | fact


@_compiled
def reaches(mine: Bits, mask: Bits, ply: int, to_win: bool, horizon: int, table: Table, scratch: Scratch) -> bool:
    """Return whether the mover, who has no win in one, can force a win (`to_win`), or else at least a draw.

    Ply counts the stones; games unfinished at the horizon are drawn.
    """
    if ply + 1 >= horizon:
        return not to_win
    theirs = mask ^ mine
    threats = _winning_cells(theirs, mask)
    possible = _landing_cells(mask)
    forced = threats & possible
    if forced & (forced - _ONE):
        return False
    if forced:
        possible = forced
    possible &= ~(threats >> _ONE)  # a stone below a threat gives the opponent the win
    if not possible:
        return False
    if ply + 2 == horizon:
        return not to_win
    if to_win and not _has_four(BOARD ^ theirs):
        return False
    if not to_win and not _has_four(BOARD ^ mine):
        return True
    if to_win and ply % 2 == 0 and _holds_on_top(mine, mask):
        return False

    tabled = horizon - ply >= _TABLED_PLIES
    peeked = horizon - ply >= _PEEKED_PLIES
    key = _NONE
    if tabled:
        key = _key(mine, mask, ply, horizon)
        known = _known(table, key)
        if known & (_WINS if to_win else _DOES_NOT_LOSE):
            return True
        if known & (_DOES_NOT_WIN if to_win else _LOSES):
            return False

    count = 0
    while possible:
        move = possible & (~possible + _ONE)
        possible ^= move
        if not to_win and ply % 2 == 1 and _holds_on_top(theirs, mask | move):
            return True
        if peeked:
            known = _known(table, _key(theirs, mask | move, ply + 1, horizon))
            if known & (_LOSES if to_win else _DOES_NOT_WIN):
                return True
        score = _THREAT * _count(_winning_cells(mine | move, mask | move)) + _LINES[_count(move - _ONE)]
        ranked = (score << _POSITION_BITS) | move
        place = count
        while place > 0 and scratch[ply, place - 1] < ranked:
            scratch[ply, place] = scratch[ply, place - 1]
            place -= 1
        scratch[ply, place] = ranked
        count += 1

    found = False
    for index in range(count):
        move = scratch[ply, index] & _POSITION
        if not reaches(theirs, mask | move, ply + 1, not to_win, horizon, table, scratch):
            found = True
            break
    if tabled:
        if to_win:
            _learn(table, key, _WINS | _DOES_NOT_LOSE if found else _DOES_NOT_WIN)
        else:
            _learn(table, key, _DOES_NOT_LOSE if found else _LOSES | _DOES_NOT_WIN)
    return found
