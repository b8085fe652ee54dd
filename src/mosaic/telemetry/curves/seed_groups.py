"""Curves of a seed group: mean, interquartile mean and a 95 % band of the mean along a common x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.telemetry.curves.bootstrap import Floats, bounds, resampled_counts

Counts = NDArray[np.int64]


class GroupCurve(NamedTuple):
    """Arrays of equal length. `runs` is the number of runs that reach each x; where none does, the values are NaN."""

    x: Floats
    mean: Floats
    iqm: Floats
    low: Floats
    high: Floats
    runs: Counts


def group_curves(curves: Sequence[tuple[Floats, Floats]], points: int = 200) -> GroupCurve:
    """Compute statistics over runs given as (x, y) with ascending x; NaN in y is ignored.

    A run counts from its first to its last x and is interpolated in between, never extended. The band is a bootstrap
    interval of the mean: it needs two runs, shows how certain the mean is, not how far single runs spread, and never
    leaves the range of the runs.
    """
    whole = [(x[keep], y[keep]) for x, y in curves if (keep := np.isfinite(x) & np.isfinite(y)).any()]
    if not whole:
        nothing = np.empty(0)
        return GroupCurve(nothing, nothing, nothing, nothing, nothing, np.empty(0, np.int64))
    grid = np.linspace(min(x[0] for x, _ in whole), max(x[-1] for x, _ in whole), points)
    values = np.stack([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in whole])
    low, high = mean_band(values)
    return GroupCurve(grid, mean(values), interquartile_mean(values), low, high, _counts(values))


def mean(values: Floats) -> Floats:
    """Return the mean of each column, ignoring NaN."""
    count = _counts(values)
    return _divided(np.nansum(values, axis=0), count)


def interquartile_mean(values: Floats) -> Floats:
    """Return the mean of each column without its lowest and highest quarter of runs (n // 4 of each), ignoring NaN."""
    count = _counts(values)
    place = np.arange(len(values))[:, None]
    inner = (place >= count // 4) & (place < count - count // 4)
    ordered = np.sort(values, axis=0)  # NaN last
    return _divided(np.sum(np.where(inner, ordered, 0.0), axis=0), np.sum(inner, axis=0))


def mean_band(values: Floats) -> tuple[Floats, Floats]:
    """Return a 95 % bootstrap interval of the mean per column, within the hull of its values; NaN below two runs."""
    low, high = np.full(values.shape[1], np.nan), np.full(values.shape[1], np.nan)
    present, centres = ~np.isnan(values), mean(values)
    patterns, which = np.unique(present, axis=1, return_inverse=True)
    which = which.reshape(-1)
    for place, pattern in enumerate(patterns.T):
        count = int(np.sum(pattern))
        if count < 2:
            continue
        columns = which == place
        chosen = values[np.ix_(pattern, columns)]
        means = (resampled_counts(count) @ (chosen / count)).T  # one row per column: sorting along rows is faster
        below, above = bounds(means, count)
        centre = centres[columns]
        least, most = chosen.min(axis=0), chosen.max(axis=0)
        low[columns] = np.minimum(np.clip(below, least, most), centre)  # rounding may put the mean beside its hull
        high[columns] = np.maximum(np.clip(above, least, most), centre)
    return low, high


def _counts(values: Floats) -> Counts:
    counts: Counts = np.sum(~np.isnan(values), axis=0)
    return counts


def _divided(total: Floats, count: Counts) -> Floats:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
