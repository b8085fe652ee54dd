"""Bootstrap confidence intervals: always within the hull of the data, seeded, cheap enough for live charts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache, lru_cache
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

CONFIDENCE = 0.95
RESAMPLES = 1000
_UPPER = (1 + CONFIDENCE) / 2
_DRAWS_AT_ONCE = 1_000_000

Floats = NDArray[np.float64]
Places = NDArray[np.int64]


@cache
def upper_level(size: int, freedom: int | None = None) -> float:
    """Return the quantile of the resampled statistics that bounds a 95 % interval from above.

    `size` is that of a sample, and `freedom` the degrees of freedom where several are resampled together.

    Plain percentile intervals of few values are too narrow. Hesterberg's expanded percentile interval (What Teachers
    Should Know About the Bootstrap, 2015) widens them as Student's t does, without leaving the hull of the values.
    """
    from scipy.special import stdtrit  # late: importing SciPy costs more than most evaluations of a toy env

    if size < 2:
        raise ValueError("An interval needs at least two values.")
    return NormalDist().cdf(math.sqrt(size / (size - 1)) * float(stdtrit(freedom or size - 1, _UPPER)))


def resampled_places(values: int, size: int, seed: int = 0) -> Iterator[Places]:
    """Yield blocks of rows; each row holds `size` indices drawn from `values` with replacement, RESAMPLES in all."""
    random = np.random.default_rng(seed)
    rows = max(1, _DRAWS_AT_ONCE // max(1, size))
    for start in range(0, RESAMPLES, rows):
        yield random.integers(0, values, (min(rows, RESAMPLES - start), size))


@lru_cache(maxsize=64)
def resampled_counts(values: int) -> Floats:
    """Return how often each of a few values is drawn in each resample: RESAMPLES rows, one column per value."""
    random = np.random.default_rng(0)
    counts: Floats = random.multinomial(values, [1 / values] * values, RESAMPLES).astype(np.float64)
    counts.setflags(write=False)
    return counts


def bounds(statistics: Floats, size: int, freedom: int | None = None) -> tuple[Floats, Floats]:
    """Return the lower and upper bound of a 95 % interval, along the last axis of resampled statistics."""
    count = statistics.shape[-1]
    last = min(count - 1, math.ceil(upper_level(size, freedom) * count))
    ordered = np.partition(statistics, (count - 1 - last, last), axis=-1)
    return ordered[..., count - 1 - last], ordered[..., last]
