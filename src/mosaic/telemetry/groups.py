"""What the runs of a seed group say together: mean, interquartile mean and a 95 % band along a common x."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]
_UPPER = 0.975


class GroupCurve(NamedTuple):
    """Arrays of one length. `runs` says how many runs reach each x; where none does the values are NaN."""

    x: Floats
    mean: Floats
    iqm: Floats
    low: Floats
    high: Floats
    runs: Counts


def group_curves(curves: Sequence[tuple[Floats, Floats]], points: int = 200) -> GroupCurve:
    """Statistics over runs given as (x, y) with growing x; NaN in y is left out.

    A run counts from its first to its last x and is interpolated in between, never extended. The band is Student's t
    interval of the mean: it takes two runs, and says how sure the mean is, not how far single runs spread.
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
    """Per column, over the rows that are not NaN."""
    count = _counts(values)
    return _divided(np.nansum(values, axis=0), count)


def interquartile_mean(values: Floats) -> Floats:
    """Per column: the mean without the lowest and the highest quarter of the runs (n // 4 of each), NaN left out."""
    count = _counts(values)
    place = np.arange(len(values))[:, None]
    inner = (place >= count // 4) & (place < count - count // 4)
    ordered = np.sort(values, axis=0)  # NaN last
    return _divided(np.sum(np.where(inner, ordered, 0.0), axis=0), np.sum(inner, axis=0))


def mean_band(values: Floats) -> tuple[Floats, Floats]:
    """Per column: the interval that holds the true mean in 95 of 100 groups; NaN below two runs."""
    from scipy.special import stdtrit  # late: importing SciPy costs more than most charts

    count, centre = _counts(values), mean(values)
    squares = np.nansum((values - centre) ** 2, axis=0)
    enough = count >= 2
    freedom = np.where(enough, count - 1, 1)
    reach = stdtrit(freedom, _UPPER) * np.sqrt(squares / freedom / np.maximum(count, 1))
    reach = np.where(enough, reach, np.nan)
    return centre - reach, centre + reach


def _counts(values: Floats) -> Counts:
    counts: Counts = np.sum(~np.isnan(values), axis=0)
    return counts


def _divided(total: Floats, count: Counts) -> Floats:
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)
