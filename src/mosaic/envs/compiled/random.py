"""Random numbers of compiled code: splitmix64, by key and counter, or one stream per env.

With a stream of its own, no env influences another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core import seeding
from mosaic.core.numba_cache import njit

GOLDEN = np.uint64(seeding.GOLDEN)
_FIRST, _SECOND = np.uint64(seeding.MIX[0]), np.uint64(seeding.MIX[1])
_TO_UNIT = seeding.TO_UNIT
_S11, _S27, _S30, _S31, _S32 = np.uint64(11), np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(32)


def streams(seed: int, count: int) -> NDArray[np.uint64]:
    """Return the initial states of the streams; the first ones do not depend on `count`."""
    return np.random.SeedSequence(seeding.child_key(seed, "envs")).generate_state(count, np.uint64).astype(np.uint64)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def mix(z: np.uint64) -> np.uint64:
    """Return splitmix64's finaliser of a state: 64 random bits."""
    z = (z ^ (z >> _S30)) * _FIRST
    z = (z ^ (z >> _S27)) * _SECOND
    return np.uint64(z ^ (z >> _S31))


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def uniform(bits: np.uint64) -> float:
    """Return a number in [0, 1) from the upper 53 bits."""
    return np.float64(bits >> _S11) * _TO_UNIT


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def below(bits: np.uint64, n: int) -> np.int64:
    """Return a whole number in 0..n-1 from the upper 32 bits; n < 2**31."""
    return np.int64(((bits >> _S32) * np.uint64(n)) >> _S32)


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw(key: np.uint64, counter: np.uint64) -> np.uint64:
    """Return 64 random bits of a key and a counter, without a state."""
    bits: np.uint64 = mix(np.uint64(key) + np.uint64(counter) * GOLDEN)
    return bits


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def next_bits(rng: NDArray[np.uint64], stream: int) -> np.uint64:
    rng[stream] += GOLDEN
    bits: np.uint64 = mix(rng[stream])
    return bits


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def next_uniform(rng: NDArray[np.uint64], stream: int) -> float:
    """Draw from [0, 1), with 53 random bits."""
    number: float = uniform(next_bits(rng, stream))
    return number


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def next_between(rng: NDArray[np.uint64], stream: int, low: float, high: float) -> float:
    number: float = low + (high - low) * next_uniform(rng, stream)
    return number


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def next_below(rng: NDArray[np.uint64], stream: int, n: int) -> np.int64:
    """Draw a whole number in 0..n-1; n < 2**31."""
    number: np.int64 = below(next_bits(rng, stream), n)
    return number
