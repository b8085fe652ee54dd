"""Connect four boards as bits.

Column by column from the left and upwards within a column; the seventh bit of a column stays empty, so that no line
wraps around. A position is (mine, mask): the stones of the mover, and the stones of both. The functions take numpy's
uint64, one or an array of them, and are compiled where speed matters.
"""

# compiled code uses this file

from __future__ import annotations

from typing import Any

import numpy as np

ROWS, COLUMNS = 6, 7
CELLS = ROWS * COLUMNS
PITCH = ROWS + 1
POSITION_BITS = PITCH * COLUMNS
BOTTOM = np.uint64(sum(1 << PITCH * column for column in range(COLUMNS)))
BOARD = BOTTOM * np.uint64((1 << ROWS) - 1)
COLUMN = np.uint64((1 << PITCH) - 1)

Bits = Any  # np.uint64 or an array of it

_ONE, _TWO, _THREE = np.uint64(1), np.uint64(2), np.uint64(3)
_UP, _ACROSS, _RISING, _FALLING = np.uint64(1), np.uint64(PITCH), np.uint64(PITCH + 1), np.uint64(PITCH - 1)


def landing_cells(mask: Bits) -> Bits:
    """Return the lowest empty cell of every open column."""
    return (mask + BOTTOM) & BOARD


def has_four(stones: Bits) -> Bits:
    found = stones & ~stones
    for step in (_UP, _ACROSS, _RISING, _FALLING):
        pairs = stones & (stones >> step)
        found = found | (pairs & (pairs >> (step * _TWO)))
    return found != np.uint64(0)


def winning_cells(stones: Bits, mask: Bits) -> Bits:
    """Return the empty cells, reachable or not, that would complete four for the owner of the stones."""
    cells = (stones << _UP) & (stones << _TWO) & (stones << _THREE)
    for step in (_ACROSS, _RISING, _FALLING):
        above = (stones << step) & (stones << (step * _TWO))
        below = (stones >> step) & (stones >> (step * _TWO))
        cells = cells | (above & ((stones << (step * _THREE)) | (stones >> step)))
        cells = cells | (below & ((stones >> (step * _THREE)) | (stones << step)))
    return cells & (BOARD ^ mask)


def mirrored(bits: Bits) -> Bits:
    result = bits & ~bits
    for _ in range(COLUMNS):
        result = (result << _ACROSS) | (bits & COLUMN)
        bits = bits >> _ACROSS
    return result


def completing_counts(stones: Bits, mask: Bits) -> Bits:
    """Return bits 0 to 3, one board each, of the number of fours that every empty cell would complete."""
    free = BOARD ^ mask
    ones = (stones << _UP) & (stones << _TWO) & (stones << _THREE) & free
    twos = fours = eights = ones & ~ones
    for step in (_ACROSS, _RISING, _FALLING):
        up, down = stones << step, stones >> step
        up_two, down_two = stones << (step * _TWO), stones >> (step * _TWO)
        outer, inner = up & up_two, down & down_two
        for line in (
            outer & (stones << (step * _THREE)),
            outer & down,
            inner & up,
            inner & (stones >> (step * _THREE)),
        ):
            cells = line & free
            carried = ones & cells
            ones = ones ^ cells
            above = twos & carried
            twos = twos ^ carried
            eights = eights | (fours & above)
            fours = fours ^ above
    return ones, twos, fours, eights
