"""Random numbers of random.py for compiled code.

numba's cache does not notice a change in an imported file: these three must never change without random.py, and the
files that import them must be touched too.
"""

from __future__ import annotations

import numpy as np

from mosaic.core.numba_cache import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST = np.uint64(0xBF58476D1CE4E5B9)
SECOND = np.uint64(0x94D049BB133111EB)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw(key: np.uint64, counter: np.uint64) -> np.uint64:
    z = np.uint64(key) + np.uint64(counter) * GOLDEN
    z = (z ^ (z >> np.uint64(30))) * FIRST
    z = (z ^ (z >> np.uint64(27))) * SECOND
    return np.uint64(z ^ (z >> np.uint64(31)))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def uniform(bits: np.uint64) -> float:
    return np.float64(bits >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def below(bits: np.uint64, n: int) -> np.int64:
    return np.int64(((bits >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))
