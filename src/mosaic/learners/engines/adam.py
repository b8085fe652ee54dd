"""Adam on flat weights with clipping by the global norm, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.models.engine import StateArrays

FIRST_DECAY, SECOND_DECAY = 0.9, 0.999

_ONE = np.float32(1)
_NORM_GUARD = np.float32(1e-6)  # as in torch's clip_grad_norm_


class Optimiser(NamedTuple):
    """Weights and the state of Adam."""

    weights: NDArray[np.float32]
    gradient: NDArray[np.float32]
    first: NDArray[np.float32]  # running mean of the gradient
    second: NDArray[np.float32]  # running mean of its square
    count: NDArray[np.int64]  # type: ignore[assignment]  # [steps taken]; hides tuple.count, which is not used


def make_optimiser(weights: NDArray[np.float32]) -> Optimiser:
    """Create an optimiser that changes these weights in place."""
    zeros = np.zeros_like
    return Optimiser(weights, zeros(weights), zeros(weights), zeros(weights), np.zeros(1, np.int64))


def optimiser_state(optimiser: Optimiser) -> StateArrays:
    """Return copies of Adam's moments and number of steps; torch's optimiser is saved under the same names."""
    return {
        "optimiser.first": optimiser.first.copy(),
        "optimiser.second": optimiser.second.copy(),
        "optimiser.count": optimiser.count.astype(np.float32),
    }


def load_optimiser_state(optimiser: Optimiser, state: StateArrays) -> None:
    optimiser.first[:] = state["optimiser.first"]
    optimiser.second[:] = state["optimiser.second"]
    optimiser.count[:] = state["optimiser.count"].astype(np.int64)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def adam(optimiser: Optimiser, lr: float, max_grad_norm: float, epsilon: float) -> np.float32:
    """Take one step down `optimiser.gradient`; return the norm before clipping (max_grad_norm 0: no clipping)."""
    weights, gradient = optimiser.weights, optimiser.gradient
    first, second = optimiser.first, optimiser.second
    squares = np.float32(0)
    for i in range(weights.shape[0]):
        squares += gradient[i] * gradient[i]
    norm: np.float32 = np.sqrt(squares)
    scale = _ONE
    if max_grad_norm > 0:
        scale = min(_ONE, np.float32(max_grad_norm) / (norm + _NORM_GUARD))
    optimiser.count[0] += 1
    steps = optimiser.count[0]
    rate = np.float32(lr / (1.0 - FIRST_DECAY**steps))
    root = np.float32(1.0 / np.sqrt(1.0 - SECOND_DECAY**steps))
    keep_first, keep_second, guard = np.float32(FIRST_DECAY), np.float32(SECOND_DECAY), np.float32(epsilon)
    for i in range(weights.shape[0]):
        slope = gradient[i] * scale
        first[i] = keep_first * first[i] + (_ONE - keep_first) * slope
        second[i] = keep_second * second[i] + (_ONE - keep_second) * slope * slope
        weights[i] -= rate * first[i] / (np.sqrt(second[i]) * root + guard)
    return norm
