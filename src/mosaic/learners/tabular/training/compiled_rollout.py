"""Compiled rollout step in one call: learning from it, and the next decision.

Arrays are passed by address. Unpacking six of them at every step costs more than the step itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import carray, memory_at, njit
from mosaic.learners.tabular.engines.numba_steps import (
    ALGORITHM,
    ERRORS,
    MARKS,
    NUMBERS,
    Q_LAMBDA,
    TRAIL_LAST,
    learn_on_trail,
    learn_one,
    select,
)
from mosaic.learners.tabular.experience import ENDED, NO_ROOM, NOT_FINITE

# Indices into the array of addresses and sizes
VALUES, VISITS, NUMBERS_AT, MARKS_AT, LEGAL, PAIRS, TRAIL, TRAIL_LEGAL, LAYERS, STATES, ACTIONS, ROOM = range(12)


def directory(arrays: tuple[NDArray[np.generic], ...]) -> NDArray[np.int64]:
    """Return addresses and sizes of an engine's arrays, in the order of the indices above.

    The caller keeps the arrays alive.
    """
    values, *_, trail, _ = arrays
    sizes = (*values.shape, len(trail))
    return np.array([*(array.ctypes.data for array in arrays), *sizes], np.int64)


@njit(cache=True, error_model="numpy")
def _step(  # type: ignore[no-untyped-def]
    values,
    visits,
    numbers,
    marks,
    legal,
    pairs,
    trail,
    trail_legal,
    state,
    action,
    reward,
    after,
    terminated,
    truncated,
):
    if not np.isfinite(reward):
        return NOT_FINITE
    if marks[ALGORITHM] >= Q_LAMBDA:
        if marks[TRAIL_LAST] >= trail.shape[0]:
            return NO_ROOM
        error = learn_on_trail(
            values,
            visits,
            numbers,
            marks,
            pairs,
            trail,
            trail_legal,
            state,
            action,
            reward,
            after,
            terminated,
            truncated,
            legal,
        )
    else:
        error = learn_one(values, visits, numbers, marks, state, action, reward, after, terminated, truncated, legal)
    if not np.isfinite(error):
        return NOT_FINITE
    numbers[ERRORS] += abs(error)
    if terminated or truncated:
        return ENDED
    return select(values, visits, numbers, marks, after, legal)


@njit(cache=True, error_model="numpy")
def _step_at(address, values, state, action, reward, after, terminated, truncated):  # type: ignore[no-untyped-def]
    places = carray(memory_at(address), (12,), np.int64)
    actions, room = places[ACTIONS], places[ROOM]
    return _step(
        values,
        carray(memory_at(places[VISITS]), (places[STATES], actions), np.int32),
        carray(memory_at(places[NUMBERS_AT]), (NUMBERS,), np.float64),
        carray(memory_at(places[MARKS_AT]), (MARKS,), np.int64),
        carray(memory_at(places[LEGAL]), (actions,), np.bool_),
        carray(memory_at(places[PAIRS]), (room, 2), np.int64),
        carray(memory_at(places[TRAIL]), (room,), np.float64),
        carray(memory_at(places[TRAIL_LEGAL]), (actions,), np.bool_),
        state,
        action,
        reward,
        after,
        terminated,
        truncated,
    )


@njit(cache=True, error_model="numpy")
def step_float32(address, state, action, reward, after, terminated, truncated):  # type: ignore[no-untyped-def]
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    values = carray(memory_at(places[VALUES]), shape, np.float32)
    return _step_at(address, values, state, action, reward, after, terminated, truncated)


@njit(cache=True, error_model="numpy")
def step_float64(address, state, action, reward, after, terminated, truncated):  # type: ignore[no-untyped-def]
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    values = carray(memory_at(places[VALUES]), shape, np.float64)
    return _step_at(address, values, state, action, reward, after, terminated, truncated)


@njit(cache=True, error_model="numpy")
def _select_at(address, values, state):  # type: ignore[no-untyped-def]
    places = carray(memory_at(address), (12,), np.int64)
    return select(
        values,
        carray(memory_at(places[VISITS]), (places[STATES], places[ACTIONS]), np.int32),
        carray(memory_at(places[NUMBERS_AT]), (NUMBERS,), np.float64),
        carray(memory_at(places[MARKS_AT]), (MARKS,), np.int64),
        state,
        carray(memory_at(places[LEGAL]), (places[ACTIONS],), np.bool_),
    )


@njit(cache=True, error_model="numpy")
def select_float32(address, state):  # type: ignore[no-untyped-def]
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    return _select_at(address, carray(memory_at(places[VALUES]), shape, np.float32), state)


@njit(cache=True, error_model="numpy")
def select_float64(address, state):  # type: ignore[no-untyped-def]
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    return _select_at(address, carray(memory_at(places[VALUES]), shape, np.float64), state)


@njit(cache=True, error_model="numpy")
def advance_float32(address, state, action, reward, after):  # type: ignore[no-untyped-def]
    """Run `step_float32` within an episode: each argument less saves a tenth of the call."""
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    values = carray(memory_at(places[VALUES]), shape, np.float32)
    return _step_at(address, values, state, action, reward, after, False, False)


@njit(cache=True, error_model="numpy")
def restart_float32(address, state, action, reward, after, truncated, start):  # type: ignore[no-untyped-def]
    """Learn the last step of an episode and make the first decision of the next one."""
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    values = carray(memory_at(places[VALUES]), shape, np.float32)
    code = _step_at(address, values, state, action, reward, after, not truncated, truncated)
    return _select_at(address, values, start) if code == ENDED else code


@njit(cache=True, error_model="numpy")
def advance_float64(address, state, action, reward, after):  # type: ignore[no-untyped-def]
    """Run `step_float64` within an episode: each argument less saves a tenth of the call."""
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    values = carray(memory_at(places[VALUES]), shape, np.float64)
    return _step_at(address, values, state, action, reward, after, False, False)


@njit(cache=True, error_model="numpy")
def restart_float64(address, state, action, reward, after, truncated, start):  # type: ignore[no-untyped-def]
    """Learn the last step of an episode and make the first decision of the next one."""
    places = carray(memory_at(address), (12,), np.int64)
    shape = (places[LAYERS], places[STATES], places[ACTIONS])
    values = carray(memory_at(places[VALUES]), shape, np.float64)
    code = _step_at(address, values, state, action, reward, after, not truncated, truncated)
    return _select_at(address, values, start) if code == ENDED else code


class CompiledSteps(NamedTuple):
    """Compiled functions; each takes the address of a directory first."""

    step: Callable[[int, int, int, float, int, bool, bool], int]
    advance: Callable[[int, int, int, float, int], int]
    restart: Callable[[int, int, int, float, int, bool, int], int]
    select: Callable[[int, int], int]


COMPILED_BY_DTYPE: dict[str, CompiledSteps] = {
    "float32": CompiledSteps(step_float32, advance_float32, restart_float32, select_float32),
    "float64": CompiledSteps(step_float64, advance_float64, restart_float64, select_float64),
}
