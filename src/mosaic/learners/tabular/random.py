"""Counter-based random numbers: a pure function of a key and a counter, equal in Python, NumPy and numba."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import GOLDEN, MIX, TO_UNIT, child_seed

WORD = 2**64 - 1
FIRST, SECOND = MIX


def stream(seed: int, *names: str | int) -> int:
    """Return the key of a named stream derived from a seed."""
    return draw(child_seed(seed, *names), 1)


def draw(key: int, counter: int) -> int:
    """Return 64 random bits: splitmix64's finaliser of key + counter × golden ratio."""
    z = (key + counter * GOLDEN) & WORD
    z = ((z ^ (z >> 30)) * FIRST) & WORD
    z = ((z ^ (z >> 27)) * SECOND) & WORD
    return z ^ (z >> 31)


def uniform(bits: int) -> float:
    """Return a number in [0, 1) from the upper 53 bits."""
    return (bits >> 11) * TO_UNIT


def below(bits: int, n: int) -> int:
    """Return an integer in 0..n-1 from the upper 32 bits; n < 2**31, so that no step exceeds 64 bits."""
    return ((bits >> 32) * n) >> 32


def draw_array(key: int, counters: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return `draw` for many counters at once; NumPy's array arithmetic wraps at 64 bits as required."""
    z = np.asarray(key, np.uint64) + np.atleast_1d(counters) * np.uint64(GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(FIRST)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(SECOND)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed
