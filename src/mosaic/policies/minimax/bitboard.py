"""Whether the mover of a connect four position reaches a goal: the compiled search."""

from __future__ import annotations

import numpy as np
from numba import njit, types, uint64

ROWS, COLUMNS = 6, 7
CELLS = ROWS * COLUMNS
# Column by column, the lowest row first; the seventh bit of a column stays empty and keeps lines from wrapping around.
PITCH = ROWS + 1
BOTTOM = sum(1 << PITCH * column for column in range(COLUMNS))
BOARD = BOTTOM * ((1 << ROWS) - 1)

TABLE_SIZE = (1 << 23) - 15
_TABLED_PLIES = 9  # below this distance from the horizon searching again is cheaper than a cache miss
_MIRRORED_PLIES = 14

_BOTTOM, _BOARD = np.uint64(BOTTOM), np.uint64(BOARD)
_ONE, _NONE = np.uint64(1), np.uint64(0)
_UP, _ACROSS, _RISING, _FALLING = np.uint64(1), np.uint64(PITCH), np.uint64(PITCH + 1), np.uint64(PITCH - 1)
_COLUMN = np.uint64((1 << PITCH) - 1)
_TWO, _THREE = np.uint64(2), np.uint64(3)
_SIZE = np.uint64(TABLE_SIZE)
_KEY_SHIFT = np.uint64(4)
_HORIZON_SHIFT = np.uint64(PITCH * COLUMNS)


@njit(cache=True, nogil=True)
def winning_cells(stones, mask):
    """The empty cells, reachable or not, that complete four for the owner of the stones."""
    cells = (stones << _UP) & (stones << _TWO) & (stones << _THREE)
    for step in (_ACROSS, _RISING, _FALLING):
        pair = (stones << step) & (stones << (step * _TWO))
        cells |= pair & (stones << (step * _THREE))
        cells |= pair & (stones >> step)
        pair = (stones >> step) & (stones >> (step * _TWO))
        cells |= pair & (stones >> (step * _THREE))
        cells |= pair & (stones << step)
    return cells & (_BOARD ^ mask)


@njit(cache=True, nogil=True)
def has_four(stones):
    for step in (_UP, _ACROSS, _RISING, _FALLING):
        pairs = stones & (stones >> step)
        if pairs & (pairs >> (step * _TWO)):
            return True
    return False


@njit(cache=True, nogil=True)
def count_bits(bits):
    count = 0
    while bits:
        bits &= bits - _ONE
        count += 1
    return count


@njit(cache=True, nogil=True)
def mirrored(bits):
    result = _NONE
    for _ in range(COLUMNS):
        result = (result << _ACROSS) | (bits & _COLUMN)
        bits >>= _ACROSS
    return result


_ODD_ROWS = np.uint64(BOTTOM * 0b010101)
@njit(cache=True, nogil=True)
def follow_up_holds(mine, mask):
    """The second player always answers on top."""
    tops = mask + _BOTTOM
    if tops & (_BOTTOM * uint64(0b0101010)):
        return False
    return not has_four(mine | (_ODD_ROWS & ~mask))


@njit(types.boolean(uint64, uint64, types.int64, types.boolean, types.int64, uint64[::1], uint64[:, ::1], types.int64[:,::1], types.int64[::1]), cache=True, nogil=True)
def reaches(mine, mask, ply, to_win, horizon, table, moves, scores, nodes):
    nodes[0] += 1
    if ply == horizon:
        return not to_win
    possible = (mask + _BOTTOM) & _BOARD
    if winning_cells(mine, mask) & possible:
        return True
    if ply + 1 == horizon:
        return not to_win
    theirs = mask ^ mine
    threats = winning_cells(theirs, mask)
    forced = threats & possible
    if forced:
        if forced & (forced - _ONE):
            return False
        possible = forced
    possible &= ~(threats >> _ONE)
    if not possible:
        return False
    if ply + 2 == horizon:
        return not to_win
    if to_win:
        if not has_four(_BOARD ^ theirs):
            return False
    elif not has_four(_BOARD ^ mine):
        return True

    if ply % 2 == 0:
        if to_win and follow_up_holds(mine, mask):
            return False
    elif not to_win:
        for i in range(COLUMNS):
            move = possible & (_COLUMN << uint64(PITCH * i))
            if move and follow_up_holds(theirs, mask | move):
                return True

    tabled = horizon - ply >= _TABLED_PLIES
    key = mine + mask
    slot = _NONE
    known = _NONE
    if tabled:
        if ply <= _MIRRORED_PLIES:
            key = min(key, mirrored(mine) + mirrored(mask))
        key |= uint64(horizon) << _HORIZON_SHIFT
        slot = key % _SIZE
        entry = table[slot]
        if entry >> _KEY_SHIFT == key:
            known = entry & uint64(15)
            # bits: wins, does not win, does not lose, loses
            if to_win:
                if known & uint64(1):
                    return True
                if known & uint64(2):
                    return False
            else:
                if known & uint64(4):
                    return True
                if known & uint64(8):
                    return False

    count = 0
    for i in range(COLUMNS):
        # 3, 2, 4, 1, 5, 0, 6
        column = COLUMNS // 2 + (1 - 2 * (i % 2)) * ((i + 1) // 2)
        move = possible & (_COLUMN << uint64(PITCH * column))
        if move:
            if horizon - ply > 12:
                m2 = mask | move
                k2 = theirs + m2
                if ply + 1 <= _MIRRORED_PLIES:
                    k2 = min(k2, mirrored(theirs) + mirrored(m2))
                k2 |= uint64(horizon) << _HORIZON_SHIFT
                e2 = table[k2 % _SIZE]
                if e2 >> _KEY_SHIFT == k2:
                    if e2 & (uint64(8) if to_win else uint64(2)):
                        return True
            score = count_bits(winning_cells(mine | move, mask | move))
            place = count
            while place > 0 and scores[ply, place - 1] < score:
                scores[ply, place] = scores[ply, place - 1]
                moves[ply, place] = moves[ply, place - 1]
                place -= 1
            scores[ply, place] = score
            moves[ply, place] = move
            count += 1
    found = False
    for i in range(count):
        move = moves[ply, i]
        if not reaches(theirs, mask | move, ply + 1, not to_win, horizon, table, moves, scores, nodes):
            found = True
            break
    if tabled:
        if to_win:
            fact = uint64(1 | 4) if found else uint64(2)
        else:
            fact = uint64(4) if found else uint64(8 | 2)
        entry = table[slot]
        if entry >> _KEY_SHIFT == key:
            fact |= entry & uint64(15)
        table[slot] = (key << _KEY_SHIFT) | fact
    return found
