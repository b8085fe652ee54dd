"""Interface of the three engines, and the form in which they exchange their state."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.machine import free_memory
from mosaic.learners.tabular.experience import ENDED, NOWHERE, Legal
from mosaic.learners.tabular.options import Algorithm, TabularOptions
from mosaic.learners.tabular.random import WORD

# Indices into EngineState.marks
KEY, COUNTER, PENDING_STATE, PENDING_ACTION, TRAIL_NEXT = range(5)


class EngineState(NamedTuple):
    """Mutable state of an engine as arrays; an engine restored from it continues exactly as the original would have."""

    values: NDArray[np.floating]  # [layer, state, action]
    visits: NDArray[np.int32]  # [state, action]
    marks: NDArray[np.int64]
    trail_pairs: NDArray[np.int64]  # [length, 2]
    trail_numbers: NDArray[np.float64]  # [length]
    trail_legal: NDArray[np.bool_]  # [action]


class StepBatch(NamedTuple):
    """Steps in the order in which they are to be learned."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    next_states: NDArray[np.int64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    next_legal: NDArray[np.bool_]  # [step, action]


class UnmaskedSteps(NamedTuple):
    """Learning and the next decision in one call, where every action is legal.

    A negative result says why there is no next action: NOT_FINITE on an error.
    """

    advance: Callable[[int, int, float, int], int]  # state, action, reward, next state; not the end of an episode
    end: Callable[[int, int, float, int, bool], int]  # the same and whether it was truncated, else terminated: ENDED
    restart: Callable[
        [int, int, float, int, bool, int], int
    ]  # like `end`, then decides in the next episode's first state


class TableEngine(Protocol):
    """Engine of a table; `learn` returns the error of the value that the step was about.

    Where nothing is legal, `select` returns NOWHERE and `learn` NaN, and nothing has changed.
    """

    epsilon: float

    def select(self, state: int, legal: Legal, /) -> int: ...

    def learn(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        terminated: bool,
        truncated: bool,
        next_legal: Legal,
        /,
    ) -> float: ...

    def learn_and_select(
        self,
        state: int,
        action: int,
        reward: float,
        next_state: int,
        terminated: bool,
        truncated: bool,
        next_legal: Legal | None,
        /,
    ) -> int: ...  # `learn`, then `select` in the next state; ENDED at the end of an episode, NOT_FINITE on an error

    def unmasked(self) -> UnmaskedSteps: ...  # valid until the engine learns or decides with a mask

    def select_any(self, state: int, /) -> int: ...  # `select` where every action is legal

    def set_counter(self, counter: int, /) -> None: ...  # the position in the random stream, as in a snapshot's marks

    def take_error_sum(self) -> float: ...  # of the absolute errors since the last call

    def learn_batch(self, batch: StepBatch) -> NDArray[np.float64]: ...

    def greedy(self, state: int, legal: Legal, /) -> int: ...  # the lowest on ties; no draw

    def snapshot(self) -> EngineState: ...  # may share memory with the engine: copy what you keep


def unmasked_steps(engine: TableEngine) -> UnmaskedSteps:
    """Return the steps of any engine, using its own methods."""
    learn_and_select, select_any = engine.learn_and_select, engine.select_any

    def advance(state: int, action: int, reward: float, after: int) -> int:
        return learn_and_select(state, action, reward, after, False, False, None)

    def end(state: int, action: int, reward: float, after: int, truncated: bool) -> int:
        return learn_and_select(state, action, reward, after, not truncated, truncated, None)

    def restart(state: int, action: int, reward: float, after: int, truncated: bool, start: int) -> int:
        code = learn_and_select(state, action, reward, after, not truncated, truncated, None)
        return select_any(start) if code == ENDED else code

    return UnmaskedSteps(advance, end, restart)


def first_snapshot(states: int, actions: int, algorithm: Algorithm, options: TabularOptions, key: int) -> EngineState:
    """Return the initial state of an engine."""
    layers = 2 if algorithm == "double_q_learning" else 1
    _refuse_too_large(states, actions, layers, options)
    marks = np.array([signed(key), 0, NOWHERE, NOWHERE, NOWHERE], np.int64)
    return EngineState(
        np.full((layers, states, actions), options.initial_value, options.dtype),
        np.zeros((states, actions), np.int32),
        marks,
        np.zeros((0, 2), np.int64),
        np.zeros(0),
        np.ones(actions, np.bool_),
    )


def open_engine(start: EngineState, algorithm: Algorithm, options: TabularOptions) -> TableEngine:
    if options.table_engine == "fused":
        from mosaic.learners.tabular.engines.numba import NumbaEngine

        return NumbaEngine(start, algorithm, options)
    from mosaic.learners.tabular.engines.python import PythonEngine

    return PythonEngine(start, algorithm, options)


def signed(word: int) -> int:
    """Return 64 bits as the signed number that an int64 array can hold."""
    return word - 2**64 if word > WORD >> 1 else word


def table_bytes(states: int, actions: int, layers: int, options: TabularOptions) -> int:
    """Return the memory of values and visits; an entry of a list is a pointer and an object."""
    value = {"float32": 4, "float64": 8}[options.dtype]
    return states * actions * (layers * 32 + 32 if options.table_engine == "list" else layers * value + 4)


def _refuse_too_large(states: int, actions: int, layers: int, options: TabularOptions) -> None:
    needed, free = table_bytes(states, actions, layers, options), free_memory()
    if needed > free:
        raise InputError(
            f"A table of {states:,} states × {actions:,} actions needs {needed:,} bytes; {free:,} are free here. "
            "Use fewer bins or a smaller observation space, or a worker that learns a function instead of a table: "
            "--worker native"
        )
