"""Update rules of the tabular algorithms, in plain Python.

Terminated cuts the bootstrap, truncated does not. Each function takes one step and returns the error of the value that
the step was about. Algorithms that need the next action (SARSA) choose it here, and the next decision repeats it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from mosaic.learners.tabular.experience import TRACE_FLOOR, Legal, TabularStep, Trail
from mosaic.learners.tabular.options import Algorithm, TabularOptions
from mosaic.learners.tabular.table import Table


class Mind(Protocol):
    """State that an algorithm works with."""

    @property
    def table(self) -> Table: ...

    @property
    def options(self) -> TabularOptions: ...

    @property
    def trail(self) -> Trail: ...

    def rate(self, state: int, action: int) -> float: ...  # counts the visit

    def decide_ahead(self, x: TabularStep) -> int: ...  # the action to be taken in x.next_state; two draws

    def expected(self, state: int, legal: Legal) -> float: ...

    def coin(self) -> int: ...  # 0 or 1; one draw


def q_learning(mind: Mind, x: TabularStep) -> float:
    """Move towards the reward and the best value of the next state."""
    return _learn(mind, x.state, x.action, x.reward + mind.options.discount_factor * _best_ahead(mind, x))


def sarsa(mind: Mind, x: TabularStep) -> float:
    """Move towards the reward and the value of the action that is actually taken next."""
    ahead = 0.0 if x.terminated else mind.table.value(x.next_state, mind.decide_ahead(x))
    return _learn(mind, x.state, x.action, x.reward + mind.options.discount_factor * ahead)


def expected_sarsa(mind: Mind, x: TabularStep) -> float:
    """Move towards the reward and the mean value of the next state under the exploration policy."""
    ahead = 0.0 if x.terminated else mind.expected(x.next_state, x.next_legal)
    return _learn(mind, x.state, x.action, x.reward + mind.options.discount_factor * ahead)


def double_q_learning(mind: Mind, x: TabularStep) -> float:
    """Choose the best next action by one of two tables and value it by the other: no maximum of noise.

    The coin is tossed in every step, including the last. Decisions use the mean of both tables.
    """
    mine = mind.coin()
    ahead = 0.0
    if not x.terminated:
        action = mind.table.best_action(x.next_state, x.next_legal, mine)
        ahead = mind.table.value(x.next_state, action, 1 - mine)
    return _learn(mind, x.state, x.action, x.reward + mind.options.discount_factor * ahead, mine)


def q_lambda(mind: Mind, x: TabularStep) -> float:
    """Learn by Watkins's Q(λ) with replacing traces: a step's error goes to all pairs that led here, fading with age.

    An action that was not one of the best cuts the traces, as what follows says nothing about the greedy policy.
    """
    trail, table, options = mind.trail, mind.table, mind.options
    if trail.next_state != x.state or _is_worse(table, x, trail.next_legal):
        trail.clear()
    fade = options.discount_factor * options.lambda_
    here = (x.state, x.action)
    trail.numbers[:] = [0.0 if p == here else n * fade for p, n in zip(trail.pairs, trail.numbers, strict=True)]
    trail.add(x, 1.0)
    while trail.numbers[0] < TRACE_FLOOR:
        trail.drop_oldest()
    error = x.reward + options.discount_factor * _best_ahead(mind, x) - table.value(x.state, x.action)
    move = mind.rate(x.state, x.action) * error
    for (state, action), weight in zip(trail.pairs, trail.numbers, strict=True):
        if weight > 0.0:
            table.store(state, action, table.value(state, action) + move * weight)
    if x.ended:
        trail.clear()
    return error


def n_step_sarsa(mind: Mind, x: TabularStep) -> float:
    """Learn by on-policy SARSA with n rewards in a target before it bootstraps from the table.

    At the end of an episode all waiting pairs learn, the oldest first, with the rewards there are.
    """
    trail = mind.trail
    if trail.next_state != x.state:
        trail.clear()
    trail.add(x, x.reward)
    action = None if x.terminated else mind.decide_ahead(x)
    error = 0.0
    while trail.pairs and (x.ended or len(trail.pairs) == mind.options.n_step):
        target = 0.0 if action is None else mind.table.value(x.next_state, action)
        for reward in reversed(trail.numbers):
            target = reward + mind.options.discount_factor * target
        error = _learn(mind, *trail.pairs[0], target)
        trail.drop_oldest()
    if x.ended:
        trail.clear()
    return error


def monte_carlo(mind: Mind, x: TabularStep) -> float:
    """Learn by every-visit Monte Carlo control: at the end of the episode, move each pair towards its return.

    A truncated episode continues with the best value of its last state.
    """
    trail = mind.trail
    if trail.next_state != x.state:
        trail.clear()
    trail.add(x, x.reward)
    if not x.ended:
        return 0.0
    error, target = 0.0, _best_ahead(mind, x)
    for (state, action), reward in zip(reversed(trail.pairs), reversed(trail.numbers), strict=True):
        target = reward + mind.options.discount_factor * target
        error = _learn(mind, state, action, target)
    trail.clear()
    return error


STEPS: Mapping[Algorithm, Callable[[Mind, TabularStep], float]] = {
    "q_learning": q_learning,
    "sarsa": sarsa,
    "expected_sarsa": expected_sarsa,
    "double_q_learning": double_q_learning,
    "q_lambda": q_lambda,
    "n_step_sarsa": n_step_sarsa,
    "monte_carlo": monte_carlo,
}


def _best_ahead(mind: Mind, x: TabularStep) -> float:
    if x.terminated:
        return 0.0
    return mind.table.best_value(x.next_state, x.next_legal)


def _is_worse(table: Table, x: TabularStep, legal: Legal) -> bool:
    """Return whether a better action was known."""
    return table.value(x.state, x.action) < table.best_value(x.state, legal)


def _learn(mind: Mind, state: int, action: int, target: float, layer: int = 0) -> float:
    value = mind.table.value(state, action, layer)
    error = target - value
    mind.table.store(state, action, value + mind.rate(state, action) * error, layer)
    return error
