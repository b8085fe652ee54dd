"""Choice of actions in plain Python: the reference implementation.

Every decision is given two draws, whether it needs them or not, so that all engines stay in step:

    epsilon_greedy  the first decides whether to explore, the second picks the random legal action or breaks the tie
    softmax         the first picks the action by its probability, the second is unused
    ucb             the first is unused, the second breaks the tie
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, assert_never

from mosaic.learners.tabular.experience import Legal
from mosaic.learners.tabular.options import Exploration
from mosaic.learners.tabular.random import below, uniform


class Rule(NamedTuple):
    kind: Exploration
    epsilon: float
    temperature: float
    ucb_c: float


def choose(values: list[float], visits: Sequence[int], legal: Legal | None, rule: Rule, first: int, second: int) -> int:
    """Choose an action; `legal` None: every action is legal."""
    allowed = _allowed(values, legal)
    match rule.kind:
        case "epsilon_greedy":
            if uniform(first) < rule.epsilon:
                return allowed[below(second, len(allowed))]
            return _any_best(values if legal is None else [values[action] for action in allowed], allowed, second)
        case "softmax":
            return _by_weight(_weights(values, allowed, rule.temperature), allowed, uniform(first))
        case "ucb":
            return _any_best(_hopes(values, visits, allowed, rule.ucb_c), allowed, second)
    assert_never(rule.kind)


def expected(values: Sequence[float], visits: Sequence[int], legal: Legal | None, rule: Rule) -> float:
    """Return the value of the state under this exploration rule."""
    allowed = _allowed(values, legal)
    match rule.kind:
        case "epsilon_greedy":
            total = 0.0
            for action in allowed:
                total += values[action]
            best = max(values[action] for action in allowed)
            return rule.epsilon * (total / len(allowed)) + (1.0 - rule.epsilon) * best
        case "softmax":
            return _mean(values, allowed, _weights(values, allowed, rule.temperature))
        case "ucb":
            hopes = _hopes(values, visits, allowed, rule.ucb_c)
            return _mean(values, allowed, [1.0 if hope == max(hopes) else 0.0 for hope in hopes])
    assert_never(rule.kind)


def best_action(values: list[float], legal: Legal | None) -> int:
    """Return the best legal action, the lowest on ties."""
    return values.index(max(values)) if legal is None else max(_allowed(values, legal), key=values.__getitem__)


def _allowed(values: Sequence[float], legal: Legal | None) -> Sequence[int]:
    actions = range(len(values))
    return actions if legal is None else [action for action in actions if legal[action]]


def _any_best(scores: list[float], allowed: Sequence[int], bits: int) -> int:
    best = max(scores)
    if scores.count(best) == 1:
        return allowed[scores.index(best)]
    ties = [action for score, action in zip(scores, allowed, strict=True) if score == best]
    return ties[below(bits, len(ties))]


def _weights(values: Sequence[float], allowed: Sequence[int], temperature: float) -> list[float]:
    best = max(values[action] for action in allowed)  # subtracted, or large values would overflow
    return [math.exp((values[action] - best) / temperature) for action in allowed]


def _by_weight(weights: Sequence[float], allowed: Sequence[int], chance: float) -> int:
    whole = 0.0
    for weight in weights:  # one after the other: sum() rounds differently in newer Pythons
        whole += weight
    threshold, reached = chance * whole, 0.0
    chosen = allowed[0]
    for weight, action in zip(weights, allowed, strict=True):
        reached += weight
        if weight > 0.0:  # the last possible one, should rounding carry the threshold past the end
            chosen = action
        if reached > threshold:
            break
    return chosen


def _hopes(values: Sequence[float], visits: Sequence[int], allowed: Sequence[int], c: float) -> list[float]:
    """Return upper confidence bounds; infinite for an action never tried."""
    total = sum(visits)
    return [
        values[action] + c * math.sqrt(math.log(total) / visits[action]) if visits[action] else math.inf
        for action in allowed
    ]


def _mean(values: Sequence[float], allowed: Sequence[int], weights: Sequence[float]) -> float:
    share = whole = 0.0
    for weight, action in zip(weights, allowed, strict=True):
        share += weight * values[action]
        whole += weight
    return share / whole
