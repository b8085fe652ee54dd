"""How sure a mean is: 95 % intervals of returns and of scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

CONFIDENCE = 0.95
_UPPER = (1 + CONFIDENCE) / 2
_Z = NormalDist().inv_cdf(_UPPER)


class Estimate(NamedTuple):
    """A mean and the interval that holds the true one in 95 of 100 evaluations; None where nothing can be said."""

    mean: float | None
    low: float | None
    high: float | None

    @property
    def ci95(self) -> list[float | None]:
        return [self.low, self.high]


NOTHING = Estimate(None, None, None)


def finite_mean(values: Sequence[float]) -> float | None:
    """The mean, whatever the order of the values; None where there is none."""
    n = len(values)
    if not n or not all(map(math.isfinite, values)):
        return None
    mean = math.fsum(value / n for value in values)  # divided first: the sum of huge returns would overflow
    return min(max(mean, min(values)), max(values))  # rounding must not leave the hull


def estimate_mean(values: Sequence[float]) -> Estimate:
    """The mean of independent values with Student's t interval; no bounds below two values."""
    n, mean = len(values), finite_mean(values)
    if mean is None:
        return NOTHING
    if n < 2:
        return Estimate(mean, None, None)
    deviation = math.dist(values, [mean] * n) / math.sqrt(n - 1)
    reach = student_t(n - 1) * deviation / math.sqrt(n)
    if not (math.isfinite(mean - reach) and math.isfinite(mean + reach)):
        return Estimate(mean, None, None)
    return Estimate(mean, mean - reach, mean + reach)


def estimate_score(wins: int, draws: int, losses: int) -> Estimate:
    """The mean score of independent games (win 1, draw ½, loss 0) with Wilson's interval.

    Unlike mean ± deviation it never leaves [0, 1] and has a width after ten wins in a row. Draws make scores vary less
    than the win-or-lose games that Wilson assumes, never more, so with draws it is on the safe side (a little wide).
    Two policies without chance play one game again and again: look at the number of distinct games beside it.
    """
    n = wins + draws + losses
    if not n:
        return NOTHING
    score = (wins + draws / 2) / n
    centre = score + _Z * _Z / (2 * n)
    reach = _Z * math.sqrt(score * (1 - score) / n + (_Z / (2 * n)) ** 2)
    shrink = 1 + _Z * _Z / n
    low, high = (centre - reach) / shrink, (centre + reach) / shrink
    return Estimate(score, max(0.0, min(low, score)), min(1.0, max(high, score)))


def student_t(freedom: int) -> float:
    """Student's t that 95 % of draws stay within, both sides together."""
    from scipy.special import stdtrit  # late: importing SciPy costs more than most evaluations of a toy env

    return float(stdtrit(freedom, _UPPER))
