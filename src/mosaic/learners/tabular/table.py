"""Where the numbers of a table live in Python: as nested lists or as arrays, behind one face."""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.tabular import exploration, exploration_arrays
from mosaic.learners.tabular.experience import Legal
from mosaic.learners.tabular.exploration import Rule

Dtype: TypeAlias = Literal["float32", "float64"]
MOST_VISITS = 2**31 - 1  # counts stay there: they are 32 bits wide, and 1 / this is 0 for all purposes
MEAN = -1  # the layer that decisions look at: the mean of both tables of double Q-learning


class Table(Protocol):
    """One layer of values (double Q-learning: two) and one of visits; arithmetic in 64 bits, rounded when stored."""

    def value(self, state: int, action: int, layer: int = 0) -> float: ...

    def store(self, state: int, action: int, value: float, layer: int = 0) -> None: ...

    def visit(self, state: int, action: int) -> int: ...  # count one more; how many they are

    def choose(self, state: int, legal: Legal, rule: Rule, first: int, second: int) -> int: ...

    def expected(self, state: int, legal: Legal, rule: Rule) -> float: ...

    def best_action(self, state: int, legal: Legal, layer: int = MEAN) -> int: ...

    def arrays(self) -> tuple[NDArray[np.floating], NDArray[np.int32]]: ...  # values [layer, state, action], visits


class ListTable:
    def __init__(self, values: NDArray[np.floating], visits: NDArray[np.int32]) -> None:
        self._dtype = values.dtype
        self._values: list[list[list[float]]] = values.tolist()
        self._visits: list[list[int]] = visits.tolist()

    def value(self, state: int, action: int, layer: int = 0) -> float:
        return self._values[layer][state][action]

    def store(self, state: int, action: int, value: float, layer: int = 0) -> None:
        self._values[layer][state][action] = float(np.float32(value)) if self._dtype == np.float32 else value

    def visit(self, state: int, action: int) -> int:
        row = self._visits[state]
        row[action] = min(row[action] + 1, MOST_VISITS)
        return row[action]

    def choose(self, state: int, legal: Legal, rule: Rule, first: int, second: int) -> int:
        return exploration.choose(self._row(state), self._visits[state], legal, rule, first, second)

    def expected(self, state: int, legal: Legal, rule: Rule) -> float:
        return exploration.expected(self._row(state), self._visits[state], legal, rule)

    def best_action(self, state: int, legal: Legal, layer: int = MEAN) -> int:
        return exploration.best_action(self._row(state, layer), legal)

    def arrays(self) -> tuple[NDArray[np.floating], NDArray[np.int32]]:
        return np.array(self._values, self._dtype), np.array(self._visits, np.int32)

    def _row(self, state: int, layer: int = MEAN) -> list[float]:
        if layer != MEAN:
            return self._values[layer][state]
        if len(self._values) == 1:
            return self._values[0][state]
        return [0.5 * (a + b) for a, b in zip(self._values[0][state], self._values[1][state], strict=True)]


class ArrayTable:
    def __init__(self, values: NDArray[np.floating], visits: NDArray[np.int32]) -> None:
        self._values = values
        self._visits = visits

    def value(self, state: int, action: int, layer: int = 0) -> float:
        return float(self._values[layer, state, action])

    def store(self, state: int, action: int, value: float, layer: int = 0) -> None:
        self._values[layer, state, action] = value

    def visit(self, state: int, action: int) -> int:
        self._visits[state, action] = count = min(int(self._visits[state, action]) + 1, MOST_VISITS)
        return count

    def choose(self, state: int, legal: Legal, rule: Rule, first: int, second: int) -> int:
        return exploration_arrays.choose(self._row(state), self._visits[state], np.asarray(legal), rule, first, second)

    def expected(self, state: int, legal: Legal, rule: Rule) -> float:
        return exploration_arrays.expected(self._row(state), self._visits[state], np.asarray(legal), rule)

    def best_action(self, state: int, legal: Legal, layer: int = MEAN) -> int:
        return exploration_arrays.best_action(self._row(state, layer), np.asarray(legal))

    def arrays(self) -> tuple[NDArray[np.floating], NDArray[np.int32]]:
        return self._values, self._visits

    def _row(self, state: int, layer: int = MEAN) -> NDArray[np.float64]:
        if layer != MEAN:
            return np.asarray(self._values[layer, state], np.float64)
        if len(self._values) == 1:
            return np.asarray(self._values[0, state], np.float64)
        return np.asarray(0.5 * (self._values[0, state].astype(np.float64) + self._values[1, state]), np.float64)
