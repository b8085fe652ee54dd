"""Random numbers for the fused engine: one xorshift stream per row."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit

_SCALE = np.float32(2.0**-24)


def random_streams(seed: int, rows: int) -> NDArray[np.uint64]:
    """Return the states of `rows` unrelated streams; zero, which xorshift never leaves, is avoided."""
    return np.maximum(np.random.SeedSequence(seed).generate_state(rows, np.uint64), np.uint64(1))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def next_bits(rng: NDArray[np.uint64], row: int) -> np.uint64:
    bits: np.uint64 = rng[row]
    bits ^= bits << np.uint64(13)
    bits ^= bits >> np.uint64(7)
    bits ^= bits << np.uint64(17)
    rng[row] = bits
    return bits


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_uniform(rng: NDArray[np.uint64], row: int) -> np.float32:
    """Draw from [0, 1)."""
    return np.float32(next_bits(rng, row) >> np.uint64(40)) * _SCALE


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw_below(rng: NDArray[np.uint64], row: int, limit: int) -> np.int64:
    return np.int64(((next_bits(rng, row) >> np.uint64(32)) * np.uint64(limit)) >> np.uint64(32))
