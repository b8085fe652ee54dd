"""Compiled engine: the arrays are here, the arithmetic in numba_steps.py."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from mosaic.learners.tabular.engines import numba_steps as steps
from mosaic.learners.tabular.engines.base import TRAIL_NEXT, EngineState, StepBatch, UnmaskedSteps, unmasked_steps
from mosaic.learners.tabular.experience import NO_ROOM, Legal
from mosaic.learners.tabular.options import ALGORITHMS, EXPLORATIONS, Algorithm, TabularOptions
from mosaic.learners.tabular.training.compiled_rollout import COMPILED_BY_DTYPE, directory

_LOOKS_BACK = ("q_lambda", "n_step_sarsa", "monte_carlo")
_ROOM = 64  # free entries for new steps when the trail is moved or enlarged


class CompiledTrail:
    """Steps that wait for later rewards, in arrays that compiled code fills; `marks` say which entries are in use."""

    def __init__(self, start: EngineState, marks: NDArray[np.int64]) -> None:
        self.pairs, self.numbers = start.trail_pairs.copy(), start.trail_numbers.copy()
        self.legal = start.trail_legal.copy()
        self._marks = marks
        marks[steps.TRAIL_LAST] = len(self.numbers)

    @property
    def used(self) -> slice:
        return slice(int(self._marks[steps.TRAIL_FIRST]), int(self._marks[steps.TRAIL_LAST]))

    def make_room(self) -> bool:
        """Move a trail that fills its arrays to the front of larger ones, since compiled code cannot enlarge them.

        Return whether there are new arrays.
        """
        if self._marks[steps.TRAIL_LAST] < len(self.numbers):
            return False
        used = self.used
        length = used.stop - used.start
        pairs, numbers = np.zeros((2 * length + _ROOM, 2), np.int64), np.zeros(2 * length + _ROOM)
        pairs[:length], numbers[:length] = self.pairs[used], self.numbers[used]
        self.pairs, self.numbers = pairs, numbers
        self._marks[steps.TRAIL_FIRST], self._marks[steps.TRAIL_LAST] = 0, length
        return True


class NumbaEngine:
    def __init__(self, start: EngineState, algorithm: Algorithm, options: TabularOptions) -> None:
        self._values = start.values
        self._visits = start.visits
        self._numbers = np.array(
            [
                options.learning_rate,
                options.learning_rate_min,
                options.discount_factor,
                options.epsilon,
                options.temperature,
                options.ucb_c,
                options.lambda_,
                0.0,  # sum of absolute errors
            ]
        )
        self._marks = np.zeros(steps.MARKS, np.int64)
        self._marks[: TRAIL_NEXT + 1] = start.marks
        self._marks[steps.ALGORITHM] = ALGORITHMS.index(algorithm)
        self._marks[steps.EXPLORATION] = EXPLORATIONS.index(options.exploration)
        self._marks[steps.BY_VISITS] = options.learning_rate_schedule == "visits"
        self._marks[steps.N_STEP] = options.n_step
        self._trail = CompiledTrail(start, self._marks)
        self._looks_back = algorithm in _LOOKS_BACK
        self._arrays = self._values, self._visits, self._numbers, self._marks
        # directly into compiled code: a Python frame in between costs a tenth of a step
        self.select: Callable[[int, Legal], int] = partial(steps.select, *self._arrays)
        self.greedy: Callable[[int, Legal], int] = partial(steps.best_action, self._values, steps.MEAN)
        self.learn: Callable[[int, int, float, int, bool, bool, Legal], float] = (
            self._learn_on_trail if self._looks_back else partial(steps.learn_one, *self._arrays)
        )

        self._legal = np.ones(self._visits.shape[1], np.bool_)
        self._all_legal = True
        self._compiled = COMPILED_BY_DTYPE[options.dtype]
        self._index_arrays()

    def _index_arrays(self) -> None:
        trail = self._trail
        self._directory = directory((*self._arrays, self._legal, trail.pairs, trail.numbers, trail.legal))
        self._address = int(self._directory.ctypes.data)

    @property
    def epsilon(self) -> float:
        return float(self._numbers[steps.EPSILON])

    @epsilon.setter
    def epsilon(self, epsilon: float) -> None:
        self._numbers[steps.EPSILON] = epsilon

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
        if next_legal is not None:
            self._legal[:] = next_legal
            self._all_legal = False
        elif not self._all_legal:
            self._legal[:] = self._all_legal = True
        step = self._compiled.step
        code = step(self._address, state, action, reward, next_state, terminated, truncated)
        if code == NO_ROOM:
            self._make_room()
            code = step(self._address, state, action, reward, next_state, terminated, truncated)
        return code

    def unmasked(self) -> UnmaskedSteps:
        if not self._all_legal:
            self._legal[:] = self._all_legal = True
        steps = unmasked_steps(self)
        if self._looks_back:
            return steps
        advance, restart = (partial(part, self._address) for part in (self._compiled.advance, self._compiled.restart))
        return UnmaskedSteps(advance, steps.end, restart)

    def select_any(self, state: int) -> int:
        if not self._all_legal:
            self._legal[:] = self._all_legal = True
        return self._compiled.select(self._address, state)

    def set_counter(self, counter: int) -> None:
        self._marks[steps.COUNTER] = counter

    def take_error_sum(self) -> float:
        total = float(self._numbers[steps.ERRORS])
        self._numbers[steps.ERRORS] = 0.0
        return total

    def learn_batch(self, batch: StepBatch) -> NDArray[np.float64]:
        if self._looks_back:
            rows = zip(*(column.tolist() for column in batch[:-1]), batch.next_legal, strict=True)
            return np.array([self.learn(*row) for row in rows], np.float64)
        errors = np.zeros(len(batch.states))
        steps.learn_many(*self._arrays, *batch, errors)
        return errors

    def snapshot(self) -> EngineState:
        trail, used = self._trail, self._trail.used
        marks = self._marks[: TRAIL_NEXT + 1].copy()
        return EngineState(self._values, self._visits, marks, trail.pairs[used], trail.numbers[used], trail.legal)

    def _learn_on_trail(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        terminated: bool,
        truncated: bool,
        next_legal: Legal,
    ) -> float:
        self._make_room()
        trail = self._trail.pairs, self._trail.numbers, self._trail.legal
        error: float = steps.learn_on_trail(
            *self._arrays, *trail, state, action, reward, next_state, terminated, truncated, next_legal
        )
        return error

    def _make_room(self) -> None:
        if self._trail.make_room():
            self._index_arrays()
