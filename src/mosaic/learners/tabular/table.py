"""Storage of a table in Python: nested lists or arrays, behind one interface.

Wide rows of arrays are explored in NumPy, equal number for number to exploration.py. Sums go through cumsum, which adds
from left to right as a loop does; np.sum adds in pairs and rounds differently. exp and log come from the C library, as
everywhere: NumPy's own differ in the last bit.
"""

from __future__ import annotations

import math
from array import array
from typing import Literal, Protocol, TypeAlias, assert_never

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.tabular import exploration
from mosaic.learners.tabular.experience import Legal, every_action
from mosaic.learners.tabular.exploration import Rule
from mosaic.learners.tabular.random import below, uniform

Values: TypeAlias = NDArray[np.float64]
Dtype: TypeAlias = Literal["float32", "float64"]
MOST_VISITS = 2**31 - 1  # counts saturate: they are 32 bits wide, and 1 / this is 0 for all purposes
NARROW = 32  # actions: up to here plain Python is faster on a row than NumPy's calls
MEAN = -1  # the layer used for decisions: the mean of both tables of double Q-learning


class Table(Protocol):
    """One layer of values (double Q-learning: two) and one of visits; arithmetic in 64 bits, rounded when stored."""

    def value(self, state: int, action: int, layer: int = 0) -> float: ...

    def store(self, state: int, action: int, value: float, layer: int = 0) -> None: ...

    def visit(self, state: int, action: int) -> int: ...  # adds one and returns the count

    def choose(self, state: int, legal: Legal, rule: Rule, first: int, second: int) -> int: ...

    def expected(self, state: int, legal: Legal, rule: Rule) -> float: ...

    def best_action(self, state: int, legal: Legal, layer: int = MEAN) -> int: ...

    def best_value(self, state: int, legal: Legal) -> float: ...

    def arrays(self) -> tuple[NDArray[np.floating], NDArray[np.int32]]: ...  # values [layer, state, action], visits


class ListTable:
    def __init__(self, values: NDArray[np.floating], visits: NDArray[np.int32]) -> None:
        self._dtype = values.dtype
        self._values: list[list[list[float]]] = values.tolist()
        self._visits: list[list[int]] = visits.tolist()
        self._all = every_action(visits.shape[1])
        self.layer: list[list[float]] = self._values[0]
        self.actions, self.counts = visits.shape[1], self._visits
        self.rounds = bool(values.dtype == np.float32)
        self.cell = array("f" if self.rounds else "d", [0.0])  # rounds what is stored

    def value(self, state: int, action: int, layer: int = 0) -> float:
        return self._values[layer][state][action]

    def store(self, state: int, action: int, value: float, layer: int = 0) -> None:
        cell = self.cell
        cell[0] = value
        self._values[layer][state][action] = cell[0]

    def visit(self, state: int, action: int) -> int:
        row = self._visits[state]
        row[action] = count = min(row[action] + 1, MOST_VISITS)
        return count

    def choose(self, state: int, legal: Legal, rule: Rule, first: int, second: int) -> int:
        mask = None if legal is self._all else legal
        return exploration.choose(self._row(state), self._visits[state], mask, rule, first, second)

    def expected(self, state: int, legal: Legal, rule: Rule) -> float:
        mask = None if legal is self._all else legal
        return exploration.expected(self._row(state), self._visits[state], mask, rule)

    def best_action(self, state: int, legal: Legal, layer: int = MEAN) -> int:
        return exploration.best_action(self._row(state, layer), None if legal is self._all else legal)

    def best_value(self, state: int, legal: Legal) -> float:
        row = self._row(state)
        return max(row) if legal is self._all else row[exploration.best_action(row, legal)]

    def arrays(self) -> tuple[NDArray[np.floating], NDArray[np.int32]]:
        return np.array(self._values, self._dtype), np.minimum(self._visits, MOST_VISITS).astype(np.int32)

    def _row(self, state: int, layer: int = MEAN) -> list[float]:
        if len(self._values) == 1:
            return self._values[0][state]
        if layer != MEAN:
            return self._values[layer][state]
        return [0.5 * (a + b) for a, b in zip(self._values[0][state], self._values[1][state], strict=True)]


class ArrayTable:
    """Table that handles rows of many actions with NumPy, others as lists: equal numbers, whichever is faster."""

    def __init__(self, values: NDArray[np.floating], visits: NDArray[np.int32]) -> None:
        self._values = values
        self._visits = visits
        self._all = every_action(visits.shape[1])
        self.actions, self.layer, self.counts = visits.shape[1], values[0], visits
        self._narrow = self.actions <= NARROW

    def value(self, state: int, action: int, layer: int = 0) -> float:
        return self._values.item(layer, state, action)

    def store(self, state: int, action: int, value: float, layer: int = 0) -> None:
        self._values[layer, state, action] = value

    def visit(self, state: int, action: int) -> int:
        count = min(self._visits.item(state, action) + 1, MOST_VISITS)
        self._visits[state, action] = count
        return count

    def choose(self, state: int, legal: Legal, rule: Rule, first: int, second: int) -> int:
        if not self._narrow:
            row, mask = self._row(state), np.asarray(legal)
            return _wide_choose(row, self._visits[state], mask, rule, first, second)
        visits = self._visits[state].tolist() if rule.kind == "ucb" else ()
        return exploration.choose(self._list(state), visits, self._mask(legal), rule, first, second)

    def expected(self, state: int, legal: Legal, rule: Rule) -> float:
        if not self._narrow:
            return _wide_expected(self._row(state), self._visits[state], np.asarray(legal), rule)
        visits = self._visits[state].tolist() if rule.kind == "ucb" else ()
        return exploration.expected(self._list(state), visits, self._mask(legal), rule)

    def best_action(self, state: int, legal: Legal, layer: int = MEAN) -> int:
        if not self._narrow:
            return _wide_best_action(self._row(state, layer), np.asarray(legal))
        return exploration.best_action(self._list(state, layer), self._mask(legal))

    def best_value(self, state: int, legal: Legal) -> float:
        if not self._narrow:
            row = self._row(state)
            return float(row[_wide_best_action(row, np.asarray(legal))])
        values = self._list(state)
        return max(values) if legal is self._all else values[exploration.best_action(values, self._mask(legal))]

    def arrays(self) -> tuple[NDArray[np.floating], NDArray[np.int32]]:
        return self._values, self._visits

    def _mask(self, legal: Legal) -> list[bool] | None:
        return None if legal is self._all else np.asarray(legal).tolist()

    def _list(self, state: int, layer: int = MEAN) -> list[float]:
        one = len(self._values) == 1
        row: list[float] = (self.layer[state] if one else self._row(state, layer)).tolist()
        return row

    def _row(self, state: int, layer: int = MEAN) -> NDArray[np.float64]:
        if layer != MEAN:
            return np.asarray(self._values[layer, state], np.float64)
        if len(self._values) == 1:
            return np.asarray(self._values[0, state], np.float64)
        return np.asarray(0.5 * (self._values[0, state].astype(np.float64) + self._values[1, state]), np.float64)


def _wide_choose(
    values: Values, visits: NDArray[np.int32], legal: NDArray[np.bool_], rule: Rule, first: int, second: int
) -> int:
    allowed = np.flatnonzero(legal)
    match rule.kind:
        case "epsilon_greedy":
            if uniform(first) < rule.epsilon:
                return int(allowed[below(second, len(allowed))])
            return _wide_any_best(values[allowed], allowed, second)
        case "softmax":
            weights = _wide_weights(values[allowed], rule.temperature)
            reached = np.cumsum(weights)
            place = np.searchsorted(reached, uniform(first) * reached[-1], side="right")
            return int(allowed[min(int(place), int(np.flatnonzero(weights)[-1]))])
        case "ucb":
            return _wide_any_best(_wide_hopes(values, visits, allowed, rule.ucb_c), allowed, second)
    assert_never(rule.kind)


def _wide_expected(values: Values, visits: NDArray[np.int32], legal: NDArray[np.bool_], rule: Rule) -> float:
    allowed = np.flatnonzero(legal)
    mine = values[allowed]
    match rule.kind:
        case "epsilon_greedy":
            mean = float(np.cumsum(mine)[-1]) / len(mine)
            return rule.epsilon * mean + (1.0 - rule.epsilon) * float(mine.max())
        case "softmax":
            return _wide_mean(mine, _wide_weights(mine, rule.temperature))
        case "ucb":
            hopes = _wide_hopes(values, visits, allowed, rule.ucb_c)
            return _wide_mean(mine, (hopes == hopes.max()).astype(np.float64))
    assert_never(rule.kind)


def _wide_best_action(values: Values, legal: NDArray[np.bool_]) -> int:
    return int(np.where(legal, values, -np.inf).argmax())


def _wide_any_best(scores: Values, allowed: NDArray[np.intp], bits: int) -> int:
    ties = np.flatnonzero(scores == scores.max())
    return int(allowed[ties[below(bits, len(ties))]])


def _wide_weights(mine: Values, temperature: float) -> Values:
    return np.array([math.exp(power) for power in (mine - mine.max()) / temperature])


def _wide_hopes(values: Values, visits: NDArray[np.int32], allowed: NDArray[np.intp], c: float) -> Values:
    counts, total = visits[allowed], int(visits.sum(dtype=np.int64))
    hopes = np.full(len(allowed), np.inf)
    known = counts > 0
    if total:
        hopes[known] = values[allowed][known] + c * np.sqrt(math.log(total) / counts[known])
    return hopes


def _wide_mean(mine: Values, weights: Values) -> float:
    return float(np.cumsum(weights * mine)[-1]) / float(np.cumsum(weights)[-1])
