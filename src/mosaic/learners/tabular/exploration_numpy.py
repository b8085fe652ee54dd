"""Choice of actions for a whole row in NumPy, equal number for number to exploration.py.

Sums go through cumsum, which adds from left to right as a loop does; np.sum adds in pairs and rounds differently. exp
and log come from the C library, as everywhere: NumPy's own differ in the last bit.
"""

from __future__ import annotations

import math
from typing import assert_never

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.tabular.exploration import Rule
from mosaic.learners.tabular.random import below, uniform

Values = NDArray[np.float64]


def choose(
    values: Values, visits: NDArray[np.int32], legal: NDArray[np.bool_], rule: Rule, first: int, second: int
) -> int:
    allowed = np.flatnonzero(legal)
    match rule.kind:
        case "epsilon_greedy":
            if uniform(first) < rule.epsilon:
                return int(allowed[below(second, len(allowed))])
            return _any_best(values[allowed], allowed, second)
        case "softmax":
            weights = _weights(values[allowed], rule.temperature)
            reached = np.cumsum(weights)
            place = np.searchsorted(reached, uniform(first) * reached[-1], side="right")
            return int(allowed[min(int(place), int(np.flatnonzero(weights)[-1]))])
        case "ucb":
            return _any_best(_hopes(values, visits, allowed, rule.ucb_c), allowed, second)
    assert_never(rule.kind)


def expected(values: Values, visits: NDArray[np.int32], legal: NDArray[np.bool_], rule: Rule) -> float:
    allowed = np.flatnonzero(legal)
    mine = values[allowed]
    match rule.kind:
        case "epsilon_greedy":
            mean = float(np.cumsum(mine)[-1]) / len(mine)
            return rule.epsilon * mean + (1.0 - rule.epsilon) * float(mine.max())
        case "softmax":
            return _mean(mine, _weights(mine, rule.temperature))
        case "ucb":
            hopes = _hopes(values, visits, allowed, rule.ucb_c)
            return _mean(mine, (hopes == hopes.max()).astype(np.float64))
    assert_never(rule.kind)


def best_action(values: Values, legal: NDArray[np.bool_]) -> int:
    return int(np.where(legal, values, -np.inf).argmax())


def _any_best(scores: Values, allowed: NDArray[np.intp], bits: int) -> int:
    ties = np.flatnonzero(scores == scores.max())
    return int(allowed[ties[below(bits, len(ties))]])


def _weights(mine: Values, temperature: float) -> Values:
    return np.array([math.exp(power) for power in (mine - mine.max()) / temperature])


def _hopes(values: Values, visits: NDArray[np.int32], allowed: NDArray[np.intp], c: float) -> Values:
    counts, total = visits[allowed], int(visits.sum(dtype=np.int64))
    hopes = np.full(len(allowed), np.inf)
    known = counts > 0
    if total:
        hopes[known] = values[allowed][known] + c * np.sqrt(math.log(total) / counts[known])
    return hopes


def _mean(mine: Values, weights: Values) -> float:
    return float(np.cumsum(weights * mine)[-1]) / float(np.cumsum(weights)[-1])
