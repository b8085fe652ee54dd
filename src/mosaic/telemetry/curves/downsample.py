"""Downsampling of long curves: lowest, highest and mean value per bucket of x."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """Arrays of equal length, by ascending x. `low` and `high` keep every outlier that `mean` smooths away."""

    x: Floats
    low: Floats
    high: Floats
    mean: Floats


def thinned(x: Floats, y: Floats, buckets: int, start: float | None = None, stop: float | None = None) -> Curve:
    """Return the points with start ≤ x ≤ stop, at most `buckets` of them.

    More points than that are put into buckets of equal width in x; empty buckets are left out. A bucket's x is the mean
    of its points' x. Points of equal x keep their order.
    """
    keep = np.isfinite(x) & np.isfinite(y)
    if start is not None:
        keep &= x >= start
    if stop is not None:
        keep &= x <= stop
    if not keep.all():
        x, y = x[keep], y[keep]
    if np.any(x[1:] < x[:-1]):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    if len(x) <= buckets:
        return Curve(x, y, y, y)
    bounds = np.flatnonzero(np.diff(bucket_of(x, buckets), prepend=-1))
    counts = np.diff(bounds, append=len(x))
    low, high = np.minimum.reduceat(y, bounds), np.maximum.reduceat(y, bounds)
    return Curve(_means(x, bounds, counts), low, high, np.clip(_means(y, bounds, counts), low, high))


def bucket_of(x: Floats, buckets: int) -> NDArray[np.int64]:
    """Return the bucket number of each x; x ascends."""
    half = x / 2  # halved, because the width of the full range could overflow
    width = half[-1] - half[0]
    if width == 0:
        return np.zeros(len(x), np.int64)
    numbers: NDArray[np.int64] = np.minimum((half - half[0]) / width * buckets, buckets - 1).astype(np.int64)
    return numbers


def _means(values: Floats, bounds: NDArray[np.int64], counts: NDArray[np.int64]) -> Floats:
    return np.add.reduceat(values / np.repeat(counts, counts), bounds)  # divided first: a sum of huge values overflows
