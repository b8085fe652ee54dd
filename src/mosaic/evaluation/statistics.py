"""Means, scores and differences with 95 % confidence intervals that stay within what is possible."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np

from mosaic.telemetry.curves.bootstrap import CONFIDENCE, Floats, bounds, resampled_places

_Z = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
_MOST_RESAMPLED = 5_000  # values; above it the normal approximation gives the same interval in a fraction of the time


class Estimate(NamedTuple):
    """Statistic and its 95 % confidence interval; None where it is undefined."""

    mean: float | None
    low: float | None
    high: float | None

    @property
    def ci95(self) -> list[float | None]:
        return [self.low, self.high]


NOTHING = Estimate(None, None, None)


def finite_mean(values: Sequence[float]) -> float | None:
    """Return the mean, independent of the order of the values; None where there are no values or one is not finite."""
    n = len(values)
    if not n or not all(map(math.isfinite, values)):
        return None
    mean = 2 * math.fsum(value / (2 * n) for value in values)  # divided first: the sum of huge returns would overflow
    return min(max(mean, min(values)), max(values))  # rounding must not leave the range of the values


def estimate_mean(values: Sequence[float], distinct: int | None = None) -> Estimate:
    """Estimate the mean of values with a bootstrap interval, which never leaves the hull of the values.

    `distinct` is the number of independent observations among the values: where neither env nor policies are
    stochastic, n episodes are one game played n times, and playing it again must not narrow the interval. There is no
    interval below two independent observations.
    """
    mean = finite_mean(values)
    if mean is None:
        return NOTHING
    size = len(values) if distinct is None else min(distinct, len(values))
    if size < 2:
        return Estimate(mean, None, None)
    ordered = np.sort(np.asarray(values, np.float64))  # the order of the episodes must not matter
    least, most = float(ordered[0]), float(ordered[-1])
    scale = max(abs(least), abs(most)) or 1.0
    scaled = ordered / scale  # sums of huge returns would overflow
    if size > _MOST_RESAMPLED:
        reach = _Z * float(np.std(scaled)) / math.sqrt(size)
        low, high = mean / scale - reach, mean / scale + reach
    else:
        means = np.concatenate([scaled[places].mean(axis=-1) for places in resampled_places(len(scaled), size)])
        low, high = map(float, bounds(means, size))
    low, high = max(low, least / scale) * scale, min(high, most / scale) * scale
    return Estimate(mean, min(max(low, least), mean), max(min(high, most), mean))  # rounding must not leave the range


def estimate_score(wins: int, draws: int, losses: int, distinct: int | None = None) -> Estimate:
    """Estimate the mean score of games (win 1, draw ½, loss 0) with Wilson's interval.

    Unlike mean ± deviation it never leaves [0, 1] and has a width after ten wins in a row. Draws make scores vary less
    than the win-or-lose games that Wilson assumes, never more, so with draws the interval is conservative (a little
    wide).

    `distinct` is the number of different games among them, as for `estimate_mean`.
    """
    played = wins + draws + losses
    if not played:
        return NOTHING
    n = played if distinct is None else min(distinct, played)
    score = (wins + draws / 2) / played
    centre = score + _Z * _Z / (2 * n)
    reach = _Z * math.sqrt(score * (1 - score) / n + (_Z / (2 * n)) ** 2)
    shrink = 1 + _Z * _Z / n
    low, high = (centre - reach) / shrink, (centre + reach) / shrink
    return Estimate(score, max(0.0, min(low, score)), min(1.0, max(high, score)))


def estimate_iqm(scores: Sequence[float]) -> Estimate:
    """Estimate the interquartile mean of the scores of independent runs, one per seed."""
    return _estimate(lambda sample: interquartile_mean(sample[0]), [scores])


def estimate_difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Estimate by how much the interquartile mean of the first group exceeds that of the second.

    The bootstrap is stratified: each group is resampled on its own (Agarwal et al., Deep Reinforcement Learning at
    the Edge of the Statistical Precipice, 2021).
    """
    return _estimate(lambda sample: interquartile_mean(sample[0]) - interquartile_mean(sample[1]), [first, second])


def estimate_improvement(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Estimate the probability that a run of the first group scores higher than one of the second; ties count ½."""
    return _estimate(_improvement, [first, second])


def interquartile_mean(values: Floats) -> Floats:
    """Return the mean without the lowest and the highest quarter (n // 4 of each) along the last axis."""
    count = values.shape[-1]
    inner = np.sort(values, axis=-1)[..., count // 4 : count - count // 4]
    mean: Floats = np.clip((inner / inner.shape[-1]).sum(axis=-1), inner[..., 0], inner[..., -1])
    return mean


def _improvement(sample: Sequence[Floats]) -> Floats:
    first, second = sample[0][..., :, None], sample[1][..., None, :]
    better: Floats = ((first > second) + 0.5 * (first == second)).mean(axis=(-2, -1))
    return better


def _estimate(statistic: Callable[[Sequence[Floats]], Floats], strata: Sequence[Sequence[float]]) -> Estimate:
    arrays = [np.sort(np.asarray(stratum, np.float64)) for stratum in strata]
    if not all(len(array) and np.isfinite(array).all() for array in arrays):
        return NOTHING
    found = float(statistic(arrays))
    size = min(map(len, arrays))
    if size < 2:
        return Estimate(found, None, None)
    draws = [resampled_places(len(array), len(array), seed) for seed, array in enumerate(arrays)]
    drawn = [np.concatenate([array[places] for places in draw]) for array, draw in zip(arrays, draws, strict=True)]
    low, high = bounds(statistic(drawn), size)
    return Estimate(found, min(float(low), found), max(float(high), found))
