"""Random numbers for the fused engine: one xorshift stream per row."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit

_SCALE = np.float32(2.0**-24)
_TWO, _TWO_PI, _TINY = np.float32(2), np.float32(6.283185307), np.float32(1e-9)


def random_streams(seed: int, rows: int) -> NDArray[np.uint64]:
    """Return the states of `rows` unrelated streams; zero, which xorshift never leaves, is avoided."""
    return np.maximum(np.random.SeedSequence(seed).generate_state(rows, np.uint64), np.uint64(1))


def generator_state(generator: np.random.Generator) -> NDArray[np.uint8]:
    """Return the state of a random generator as an array, for checkpoints."""
    return np.frombuffer(json.dumps(generator.bit_generator.state).encode(), np.uint8)


def load_generator(generator: np.random.Generator, kept: NDArray[np.uint8]) -> None:
    """Restore a state that `generator_state` returned."""
    generator.bit_generator.state = json.loads(kept.tobytes())


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


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="always")
def draw_normal(rng: NDArray[np.uint64], row: int) -> np.float32:
    """Draw from the standard normal distribution."""
    radius = np.sqrt(-_TWO * np.log(draw_uniform(rng, row) + _TINY))
    return np.float32(radius * np.cos(_TWO_PI * draw_uniform(rng, row)))
