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


def estimate_ratio(totals: Sequence[float], counts: Sequence[int], distinct: int | None = None) -> Estimate:
    """Estimate the mean of values that come in groups, such as those of an episode, from each group's sum and number.

    Values of one group are not independent: whole groups are resampled. `distinct` is as for `estimate_mean`.
    """
    groups = sorted((total, count) for total, count in zip(totals, counts, strict=True) if count)
    if not groups or not all(math.isfinite(total) for total, _ in groups):
        return NOTHING
    sums, sizes = np.array([total for total, _ in groups]), np.array([count for _, count in groups], np.float64)
    mean = float(sums.sum() / sizes.sum())
    size = len(groups) if distinct is None else min(distinct, len(groups))
    if size < 2:
        return Estimate(mean, None, None)
    if size > _MOST_RESAMPLED:
        reach = _Z * float(np.std(sums - mean * sizes)) / float(sizes.mean()) / math.sqrt(size)
        low, high = mean - reach, mean + reach
    else:
        means = [sums[at].sum(axis=-1) / sizes[at].sum(axis=-1) for at in resampled_places(len(groups), size)]
        low, high = map(float, bounds(np.concatenate(means), size))
    each = sums / sizes
    return Estimate(mean, min(max(low, float(each.min())), mean), max(min(high, float(each.max())), mean))


def estimate_score(wins: int, draws: int, losses: int, distinct: int | None = None) -> Estimate:
    """Estimate the mean score of games (win 1, draw ½, loss 0) with Wilson's interval, narrowed by draws.

    Unlike mean ± deviation it never leaves [0, 1] and has a width after ten wins in a row. Where a share d of the games
    is drawn, scores with mean μ have the variance μ(1 − μ) − d/4; d is the low end of its own interval, so that the
    result stays conservative. Without draws this is Wilson's interval of win-or-lose games.

    `distinct` is the number of different games among them, as for `estimate_mean`.
    """
    played = wins + draws + losses
    if not played:
        return NOTHING
    n = played if distinct is None else min(distinct, played)
    drawn = _wilson(draws / played, n).low or 0.0
    return _wilson((wins + draws / 2) / played, n, drawn)


def estimate_share(successes: int, trials: int, independent: float = 1.0) -> Estimate:
    """Estimate a share with Wilson's interval; `independent` is the part of the trials that are not repetitions."""
    return _wilson(successes / trials, trials * independent) if trials else NOTHING


def _wilson(score: float, n: float, drawn: float = 0.0) -> Estimate:
    """Return the score and both means μ with n (score − μ)² = z² (μ (1 − μ) − drawn / 4)."""
    zz = _Z * _Z
    centre = score + zz / (2 * n)
    reach = math.sqrt(max(0.0, centre * centre - (1 + zz / n) * (score * score + zz * drawn / (4 * n))))
    low, high = (centre - reach) / (1 + zz / n), (centre + reach) / (1 + zz / n)
    return Estimate(score, max(0.0, min(low, score)), min(1.0, max(high, score)))


def estimate_iqm(scores: Sequence[float]) -> Estimate:
    """Estimate the interquartile mean of the scores of independent runs, one per seed."""
    return estimate_stratified(lambda sample: interquartile_mean(sample[0]), [scores])


def estimate_difference(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Estimate by how much the interquartile mean of the first group exceeds that of the second.

    The bootstrap is stratified: each group is resampled on its own (Agarwal et al., Deep Reinforcement Learning at
    the Edge of the Statistical Precipice, 2021).
    """
    return estimate_stratified(
        lambda sample: interquartile_mean(sample[0]) - interquartile_mean(sample[1]), [first, second]
    )


def estimate_improvement(first: Sequence[float], second: Sequence[float]) -> Estimate:
    """Estimate the probability that a run of the first group scores higher than one of the second; ties count ½."""
    return estimate_stratified(improvement, [first, second])


def interquartile_mean(values: Floats) -> Floats:
    """Return the mean without the lowest and the highest quarter (n // 4 of each) along the last axis."""
    count = values.shape[-1]
    inner = np.sort(values, axis=-1)[..., count // 4 : count - count // 4]
    mean: Floats = np.clip((inner / inner.shape[-1]).sum(axis=-1), inner[..., 0], inner[..., -1])
    return mean


def improvement(sample: Sequence[Floats]) -> Floats:
    """Return the share of pairs, one of each of two samples, in which the first is higher; ties count ½."""
    first, second = sample[0][..., :, None], sample[1][..., None, :]
    better: Floats = ((first > second) + 0.5 * (first == second)).mean(axis=(-2, -1))
    return better


def estimate_stratified(
    statistic: Callable[[Sequence[Floats]], Floats],
    strata: Sequence[Sequence[float] | Floats],
    freedom: int | None = None,
) -> Estimate:
    """Estimate a statistic of several samples, each of which is resampled on its own.

    `freedom` is the degrees of freedom of a statistic that averages over samples; else those of the smallest count.
    """
    arrays = [np.sort(np.asarray(stratum, np.float64)) for stratum in strata]
    if not all(len(array) and np.isfinite(array).all() for array in arrays):
        return NOTHING
    found = float(statistic(arrays))
    size = min(map(len, arrays))
    if size < 2:
        return Estimate(found, None, None)
    low, high = bounds(statistic(resample(arrays)), size, freedom)
    return Estimate(found, min(float(low), found), max(float(high), found))


def resample(strata: Sequence[Floats]) -> list[Floats]:
    """Return a bootstrap's samples of each stratum, one per row."""
    draws = [resampled_places(len(array), len(array), seed) for seed, array in enumerate(strata)]
    return [np.concatenate([array[places] for places in draw]) for array, draw in zip(strata, draws, strict=True)]
