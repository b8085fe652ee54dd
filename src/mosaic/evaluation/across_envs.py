"""Statistics of methods over seeds and envs: interquartile mean, profiles and probability of improvement.

After Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice, 2021 (the package rliable):
scores are normalized per env, and every interval comes from a bootstrap that resamples the seeds of each env.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias, TypedDict

import numpy as np

from mosaic.core.errors import InputError
from mosaic.evaluation.statistics import Estimate, estimate_stratified, improvement, interquartile_mean, resample
from mosaic.telemetry.curves.bootstrap import Floats, bounds

Scores: TypeAlias = Mapping[str, Mapping[str, Sequence[float]]]
"""Final scores by method and env, one per seed."""
Interval: TypeAlias = "list[float | None]"  # its low and high end
_THRESHOLDS = 51


class MethodDocument(TypedDict):
    """Results of one method over all compared envs, in normalized scores."""

    method: str
    runs: int
    iqm: float | None
    iqm_ci95: Interval
    median: float | None  # of the envs' means
    median_ci95: Interval
    mean: float | None
    mean_ci95: Interval
    optimality_gap: float | None  # mean distance to a score of 1
    optimality_gap_ci95: Interval
    profile: list[float]  # share of runs above each threshold
    profile_low: Interval
    profile_high: Interval


class ImprovementDocument(TypedDict):
    """Probability that a run of the first method scores higher than one of the second, averaged over envs."""

    first: str
    second: str
    probability: float | None
    probability_ci95: Interval


class StudyDocument(TypedDict):
    """Comparison of methods over the envs in which each of them has runs."""

    envs: list[str]
    left_out: list[str]  # envs in which a method has no run
    ranges: dict[str, list[float]]  # of each env: the scores that count as 0 and as 1
    thresholds: list[float]
    methods: list[MethodDocument]
    improvements: list[ImprovementDocument]


def compare_methods(scores: Scores, ranges: Mapping[str, tuple[float, float]] | None = None) -> StudyDocument | None:
    """Compare methods over the envs that all of them have; None where there is none.

    An env without a range is normalized by the lowest and the highest of its compared scores.
    """
    found = {name: {env: list(each) for env, each in envs.items() if len(each)} for name, envs in scores.items()}
    every = list(dict.fromkeys(env for envs in found.values() for env in envs))
    shared = [env for env in every if all(env in envs for envs in found.values())]
    if not shared:
        return None
    used = {env: _range(env, ranges or {}, [x for envs in found.values() for x in envs[env]]) for env in shared}
    strata = {name: [_normalized(envs[env], used[env]) for env in shared] for name, envs in found.items()}
    most = max(float(part.max()) for parts in strata.values() for part in parts)
    thresholds = np.linspace(0.0, max(1.0, most), _THRESHOLDS)
    return {
        "envs": shared,
        "left_out": [env for env in every if env not in shared],
        "ranges": {env: list(ends) for env, ends in used.items()},
        "thresholds": thresholds.tolist(),
        "methods": [_summarize(name, parts, thresholds) for name, parts in strata.items()],
        "improvements": [_improve(first, second, strata) for first, second in combinations(strata, 2)],
    }


def parse_range(text: str) -> tuple[str, tuple[float, float]]:
    """Read ENV=LOW:HIGH, the scores of an env that count as 0 and as 1."""
    env, _, ends = text.rpartition("=")
    try:
        low, high = map(float, ends.split(":"))
    except ValueError:
        low = high = math.nan
    if not env or not math.isfinite(low) or not math.isfinite(high) or low == high:
        raise InputError(f"'{text}' is not a range of scores. Type ENV=LOW:HIGH, such as gym/CartPole-v1=20:500.")
    return env, (low, high)


def profile(sample: Sequence[Floats], thresholds: Floats) -> Floats:
    """Return the share of runs above each threshold (a new last axis); each part holds the runs of one env."""
    scores = np.concatenate(sample, axis=-1)
    return np.stack([(scores > threshold).mean(axis=-1) for threshold in thresholds], axis=-1)


def _iqm(sample: Sequence[Floats]) -> Floats:
    return interquartile_mean(np.concatenate(sample, axis=-1))


def _means(sample: Sequence[Floats]) -> Floats:
    return np.stack([part.mean(axis=-1) for part in sample], axis=-1)


def _mean(sample: Sequence[Floats]) -> Floats:
    mean: Floats = _means(sample).mean(axis=-1)
    return mean


def _median(sample: Sequence[Floats]) -> Floats:
    median: Floats = np.median(_means(sample), axis=-1)
    return median


def _gap(sample: Sequence[Floats]) -> Floats:
    return 1.0 - _mean([np.minimum(part, 1.0) for part in sample])


STATISTICS: dict[str, Callable[[Sequence[Floats]], Floats]] = {
    "iqm": _iqm,
    "median": _median,
    "mean": _mean,
    "optimality_gap": _gap,
}


def _summarize(name: str, parts: Sequence[Floats], thresholds: Floats) -> MethodDocument:
    freedom = _freedom(parts)
    found = {key: estimate_stratified(statistic, parts, freedom) for key, statistic in STATISTICS.items()}
    values = profile(parts, thresholds)
    low, high = _profile_bounds(parts, thresholds)
    return {
        "method": name,
        "runs": sum(map(len, parts)),
        "iqm": found["iqm"].mean,
        "iqm_ci95": found["iqm"].ci95,
        "median": found["median"].mean,
        "median_ci95": found["median"].ci95,
        "mean": found["mean"].mean,
        "mean_ci95": found["mean"].ci95,
        "optimality_gap": found["optimality_gap"].mean,
        "optimality_gap_ci95": found["optimality_gap"].ci95,
        "profile": values.tolist(),
        "profile_low": low,
        "profile_high": high,
    }


def _profile_bounds(parts: Sequence[Floats], thresholds: Floats) -> tuple[Interval, Interval]:
    size = min(map(len, parts))
    if size < 2:
        return [None] * len(thresholds), [None] * len(thresholds)
    low, high = bounds(profile(resample(parts), thresholds).T, size, _freedom(parts))
    return low.tolist(), high.tolist()


def _improve(first: str, second: str, strata: Mapping[str, Sequence[Floats]]) -> ImprovementDocument:
    envs = len(strata[first])

    def statistic(sample: Sequence[Floats]) -> Floats:
        pairs = zip(sample[:envs], sample[envs:], strict=True)
        mean: Floats = np.mean([improvement(pair) for pair in pairs], axis=0)
        return mean

    freedom = min(_freedom(strata[first]), _freedom(strata[second]))
    found: Estimate = estimate_stratified(statistic, [*strata[first], *strata[second]], freedom)
    return {"first": first, "second": second, "probability": found.mean, "probability_ci95": found.ci95}


def _freedom(parts: Sequence[Floats]) -> int:
    """Return the degrees of freedom of a mean over envs, each of which has a mean of its own."""
    return sum(len(part) - 1 for part in parts)


def _range(env: str, ranges: Mapping[str, tuple[float, float]], scores: Sequence[float]) -> tuple[float, float]:
    return ranges[env] if env in ranges else (min(scores), max(scores))


def _normalized(scores: Sequence[float], ends: tuple[float, float]) -> Floats:
    """Return scores between 0 and 1 of a range; all are 1 where the range is a single score."""
    low, high = ends
    values = np.asarray(scores, np.float64)
    return np.ones_like(values) if low == high else (values - low) / (high - low)
