"""The engine in Python: the algorithms as they are written, on lists or on arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.tabular.algorithms import STEPS
from mosaic.learners.tabular.chance import WORD, draw
from mosaic.learners.tabular.engine import (
    COUNTER,
    KEY,
    PENDING_ACTION,
    PENDING_STATE,
    TRAIL_NEXT,
    Batch,
    Snapshot,
    signed,
)
from mosaic.learners.tabular.experience import ENDED, NOT_FINITE, NOWHERE, Experience, Legal, Trail
from mosaic.learners.tabular.exploration import Rule
from mosaic.learners.tabular.schedules import rate_by_visits
from mosaic.learners.tabular.settings import Algorithm, TabularOptions
from mosaic.learners.tabular.table import ArrayTable, ListTable, Table


class PythonEngine:
    def __init__(self, start: Snapshot, algorithm: Algorithm, options: TabularOptions) -> None:
        kind = ListTable if options.table_engine == "list" else ArrayTable
        self.table: Table = kind(start.values, start.visits)
        self.options = options
        self.epsilon = options.epsilon
        pairs = [(int(state), int(action)) for state, action in start.trail_pairs]
        self.trail = Trail(pairs, start.trail_numbers.tolist(), int(start.marks[TRAIL_NEXT]), start.trail_legal)
        self._step = STEPS[algorithm]
        every = np.ones(start.visits.shape[1], np.bool_)
        self._all: Legal = every.tolist() if options.table_engine == "list" else every
        self._error_sum = 0.0
        self._key = int(start.marks[KEY]) & WORD
        self._counter = int(start.marks[COUNTER])
        self._pending = int(start.marks[PENDING_STATE]), int(start.marks[PENDING_ACTION])

    def select(self, state: int, legal: Legal) -> int:
        pending_state, action = self._pending
        self._pending = NOWHERE, NOWHERE
        if pending_state == state and legal[action]:
            return action
        return self._decide(state, legal) if legal is self._all or any(legal) else NOWHERE

    def greedy(self, state: int, legal: Legal) -> int:
        return self.table.best_action(state, legal)

    def learn(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        terminated: bool,
        truncated: bool,
        next_legal: Legal,
    ) -> float:
        x = Experience(state, action, reward, next_state, terminated, truncated, next_legal)
        if not (x.terminated or next_legal is self._all or any(next_legal)):
            return math.nan
        self._pending = NOWHERE, NOWHERE
        error = self._step(self, x)
        if x.ended:
            self._pending = NOWHERE, NOWHERE
        return error

    def learn_and_select(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        terminated: bool,
        truncated: bool,
        next_legal: Legal | None,
    ) -> int:
        legal = self._all if next_legal is None else next_legal
        if not math.isfinite(reward):
            return NOT_FINITE
        error = self.learn(state, action, reward, next_state, terminated, truncated, legal)
        if not math.isfinite(error):
            return NOT_FINITE
        self._error_sum += abs(error)
        return ENDED if terminated or truncated else self.select(next_state, legal)

    def select_any(self, state: int) -> int:
        return self.select(state, self._all)

    def set_counter(self, counter: int) -> None:
        self._counter = counter

    def take_error_sum(self) -> float:
        total, self._error_sum = self._error_sum, 0.0
        return total

    def learn_batch(self, batch: Batch) -> NDArray[np.float64]:
        columns = (column.tolist() for column in batch[:-1])
        steps = zip(*columns, batch.next_legal, strict=True)
        return np.array([self.learn(*step) for step in steps], np.float64)

    def snapshot(self) -> Snapshot:
        marks = np.array([signed(self._key), self._counter, *self._pending, self.trail.next_state], np.int64)
        pairs = np.array(self.trail.pairs, np.int64).reshape(-1, 2)
        values, visits = self.table.arrays()
        legal = np.ones(visits.shape[1], np.bool_)
        if self.trail.next_state != NOWHERE:
            legal = np.array(self.trail.next_legal, np.bool_)
        return Snapshot(values, visits, marks, pairs, np.array(self.trail.numbers, np.float64), legal)

    def rate(self, state: int, action: int) -> float:
        visits = self.table.visit(state, action)
        if self.options.learning_rate_schedule == "visits":
            return rate_by_visits(visits, self.options.learning_rate_min)
        return self.options.learning_rate

    def decide_ahead(self, x: Experience) -> int:
        action = self._decide(x.next_state, x.next_legal)
        self._pending = x.next_state, action
        return action

    def expected(self, state: int, legal: Legal) -> float:
        return self.table.expected(state, legal, self._rule())

    def coin(self) -> int:
        self._counter += 1
        return draw(self._key, self._counter - 1) >> 63

    def _decide(self, state: int, legal: Legal) -> int:
        first, second = draw(self._key, self._counter), draw(self._key, self._counter + 1)
        self._counter += 2
        return self.table.choose(state, legal, self._rule(), first, second)

    def _rule(self) -> Rule:
        return Rule(self.options.exploration, self.epsilon, self.options.temperature, self.options.ucb_c)
