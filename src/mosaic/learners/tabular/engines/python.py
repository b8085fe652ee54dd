"""Python engine: the algorithms as they are written, on lists or on arrays."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.tabular.algorithms import STEPS
from mosaic.learners.tabular.engines.base import (
    COUNTER,
    KEY,
    PENDING_ACTION,
    PENDING_STATE,
    TRAIL_NEXT,
    EngineState,
    StepBatch,
    UnmaskedSteps,
    signed,
    unmasked_steps,
)
from mosaic.learners.tabular.engines.unmasked_steps import quick_steps
from mosaic.learners.tabular.experience import ENDED, NOT_FINITE, NOWHERE, Legal, TabularStep, Trail, every_action
from mosaic.learners.tabular.exploration import Rule
from mosaic.learners.tabular.options import Algorithm, TabularOptions, rate_by_visits
from mosaic.learners.tabular.random import WORD, draw_array
from mosaic.learners.tabular.table import NARROW, ArrayTable, ListTable

_DRAWS = 1024  # random words drawn at once: one by one they cost more than the rest of a decision
_NOTHING = NOWHERE, NOWHERE


class RandomWords:
    """Words of a counter-based random stream, drawn in blocks.

    Hot loops read `words` at `place` themselves, after `refill` where `place` has reached `last_place`.
    """

    __slots__ = ("_first", "key", "last_place", "place", "words")

    def __init__(self, key: int, counter: int) -> None:
        self.key = key
        self.move_to(counter)

    @property
    def counter(self) -> int:
        """Position in the stream of the next word to be used."""
        return self._first + self.place

    def move_to(self, counter: int) -> None:
        self.words: list[int] = []
        self._first = counter  # position in the stream of words[0]
        self.place = 0  # index in `words` of the next word to be used
        self.last_place = -1  # index from which there are not two words left

    def refill(self) -> int:
        """Draw the next block of the stream; return the index of its first word."""
        counter = self.counter
        self.words = draw_array(self.key, np.arange(counter, counter + _DRAWS, dtype=np.uint64)).tolist()
        self._first, self.place, self.last_place = counter, 0, _DRAWS - 1
        return 0

    def next(self) -> int:
        place = self.place if self.place < len(self.words) else self.refill()
        self.place = place + 1
        return self.words[place]


class PythonEngine:
    def __init__(self, start: EngineState, algorithm: Algorithm, options: TabularOptions) -> None:
        kind = ListTable if options.table_engine == "list" else ArrayTable
        self.table: ListTable | ArrayTable = kind(start.values, start.visits)
        self.options = options
        self._by_visits = options.learning_rate_schedule == "visits"
        self._rate = options.learning_rate
        self.epsilon = options.epsilon
        pairs = [(int(state), int(action)) for state, action in start.trail_pairs]
        self.trail = Trail(pairs, start.trail_numbers.tolist(), int(start.marks[TRAIL_NEXT]), start.trail_legal)
        self._step = STEPS[algorithm]
        self._all: Legal = every_action(start.visits.shape[1])
        self.error_sum = 0.0
        self.random = RandomWords(int(start.marks[KEY]) & WORD, int(start.marks[COUNTER]))
        self._pending = int(start.marks[PENDING_STATE]), int(start.marks[PENDING_ACTION])

    @property
    def epsilon(self) -> float:
        return self.rule.epsilon

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        self.explores_below: int = math.ceil(epsilon * 2.0**53) << 11  # for a word w: uniform(w) < epsilon
        self.rule = Rule(self.options.exploration, epsilon, self.options.temperature, self.options.ucb_c)

    def select(self, state: int, legal: Legal) -> int:
        pending_state, action = self._pending
        self._pending = _NOTHING
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
        x = TabularStep(state, action, reward, next_state, terminated, truncated, next_legal)
        if not (next_legal is self._all or terminated or any(next_legal)):
            return math.nan
        self._pending = _NOTHING
        error = self._step(self, x)
        if terminated or truncated:
            self._pending = _NOTHING
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
        self.error_sum += abs(error)
        return ENDED if terminated or truncated else self.select(next_state, legal)

    def unmasked(self) -> UnmaskedSteps:
        options = self.options
        quick = self._step is STEPS["q_learning"] and options.exploration == "epsilon_greedy" and not self._by_visits
        if quick and (isinstance(self.table, ListTable) or self.table.actions <= NARROW):
            return quick_steps(self, self.table)
        return unmasked_steps(self)

    def select_any(self, state: int) -> int:
        return self.select(state, self._all)

    def set_counter(self, counter: int) -> None:
        self.random.move_to(counter)

    def take_error_sum(self) -> float:
        total, self.error_sum = self.error_sum, 0.0
        return total

    def learn_batch(self, batch: StepBatch) -> NDArray[np.float64]:
        columns = (column.tolist() for column in batch[:-1])
        steps = zip(*columns, batch.next_legal, strict=True)
        return np.array([self.learn(*step) for step in steps], np.float64)

    def snapshot(self) -> EngineState:
        marks = np.array(
            [signed(self.random.key), self.random.counter, *self._pending, self.trail.next_state], np.int64
        )
        pairs = np.array(self.trail.pairs, np.int64).reshape(-1, 2)
        values, visits = self.table.arrays()
        legal = np.ones(visits.shape[1], np.bool_)
        if self.trail.next_state != NOWHERE:
            legal = np.array(self.trail.next_legal, np.bool_)
        return EngineState(values, visits, marks, pairs, np.array(self.trail.numbers, np.float64), legal)

    def rate(self, state: int, action: int) -> float:
        visits = self.table.visit(state, action)
        return rate_by_visits(visits, self.options.learning_rate_min) if self._by_visits else self._rate

    def decide_ahead(self, x: TabularStep) -> int:
        action = self._decide(x.next_state, x.next_legal)
        self._pending = x.next_state, action
        return action

    def expected(self, state: int, legal: Legal) -> float:
        return self.table.expected(state, legal, self.rule)

    def coin(self) -> int:
        return self.random.next() >> 63

    def _decide(self, state: int, legal: Legal) -> int:
        random = self.random
        place = random.place if random.place < random.last_place else random.refill()
        random.place = place + 2
        return self.table.choose(state, legal, self.rule, random.words[place], random.words[place + 1])
