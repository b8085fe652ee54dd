"""Random numbers of random.py for compiled code: bits of a key and a counter; `uniform` and `below` of those bits."""

from __future__ import annotations

import numpy as np

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import GOLDEN, mix
from mosaic.envs.compiled.random import below as below
from mosaic.envs.compiled.random import uniform as uniform


@njit(cache=True, nogil=True, error_model="numpy", inline="always")
def draw(key: np.uint64, counter: np.uint64) -> np.uint64:
    bits: np.uint64 = mix(np.uint64(key) + np.uint64(counter) * GOLDEN)
    return bits
