"""PPO update of a network with memory: epochs of minibatches of whole sequences, back-propagated through time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.learners.engines.adam import Optimiser, adam
from mosaic.learners.engines.fused_ppo_update import (
    ADAM_EPSILON,
    GRADIENT_NORM,
    KL,
    KL_PATIENCE,
    MINIBATCHES,
    Batch,
    Hyper,
    gathered,
    gradient_of_inputs,
)
from mosaic.models.dense import matrix, slopes_after_backward
from mosaic.models.fused import Model, Scratch
from mosaic.models.recurrent import MemoryCell, MemoryScratch, unroll, unroll_back

_ZERO = np.float32(0)


class RolloutSequences(NamedTuple):
    """All S sequences of a rollout, each row padded to L steps."""

    rows: NDArray[np.int64]  # [S, L] −1 pads the end
    learned: NDArray[np.bool_]  # [S, L] rows that are learned from, not only replayed
    lengths: NDArray[np.int64]  # [S]
    first: NDArray[np.uint8]  # of every row of the rollout
    states: NDArray[np.float32]  # [S, size] with which the sequences begin


class SequenceBatch(NamedTuple):
    """Sequences of one minibatch; `rows` are learned from, and are at `places` of the flattened table."""

    table: NDArray[np.int64]  # [L, N]
    states: NDArray[np.float32]  # [N, size], with which the sequences begin
    rows: NDArray[np.int64]
    places: NDArray[np.int64]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def chosen_sequences(replay: RolloutSequences, chosen: NDArray[np.int64]) -> SequenceBatch:
    lanes, longest, count = chosen.shape[0], 0, 0
    for i in range(lanes):
        longest = max(longest, replay.lengths[chosen[i]])
    table = np.empty((longest, lanes), np.int64)
    rows, places = np.empty(longest * lanes, np.int64), np.empty(longest * lanes, np.int64)
    for t in range(longest):
        for i in range(lanes):
            table[t, i] = replay.rows[chosen[i], t]
            if replay.learned[chosen[i], t]:
                rows[count], places[count] = table[t, i], t * lanes + i
                count += 1
    return SequenceBatch(table, replay.states[chosen], rows[:count], places[:count])


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def memory_update(
    optimiser: Optimiser,
    model: Model,
    cell: MemoryCell,
    hyper: Hyper,
    lr: float,
    batch: Batch,
    replay: RolloutSequences,
    orders: NDArray[np.int64],
    size: int,
    scratch: Scratch,
    remembered: MemoryScratch,
    stats: NDArray[np.float64],
) -> None:
    """Run an epoch for each row of `orders` [epochs, S], in minibatches of `size` sequences; the last may be less."""
    epochs, sequences = orders.shape
    for epoch in range(epochs):
        for start in range(0, sequences, size):
            part = chosen_sequences(replay, orders[epoch, start : min(start + size, sequences)])
            moved = stats[KL]
            memory_gradient(
                optimiser.weights, optimiser.gradient, model, cell, hyper, batch, replay.first, part, scratch,
                remembered, stats,
            )  # fmt: skip
            moved = (stats[KL] - moved) / part.rows.shape[0]
            if hyper.target_kl > 0 and moved > KL_PATIENCE * hyper.target_kl:
                return
            stats[GRADIENT_NORM] += adam(optimiser, lr, hyper.max_grad_norm, ADAM_EPSILON)
            stats[MINIBATCHES] += 1


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def memory_gradient(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    model: Model,
    cell: MemoryCell,
    hyper: Hyper,
    batch: Batch,
    first: NDArray[np.uint8],
    part: SequenceBatch,
    scratch: Scratch,
    remembered: MemoryScratch,
    stats: NDArray[np.float64],
) -> None:
    """Overwrite `slope` with the gradient of the PPO loss, averaged over `part.rows`; add sums to stats."""
    count, size = part.rows.shape[0], cell.size
    features = unroll(weights, cell, batch.obs, first, part.table, part.states, remembered)
    inputs = gathered(features, part.places, size, scratch.inputs)
    gradient_of_inputs(weights, slope, model, hyper, batch, part.rows, inputs, scratch, stats)
    deltas = matrix(remembered.deltas, 0, features.shape[0], size)
    deltas[:] = _ZERO
    slopes_after_backward(weights, model.policy, 0, count, scratch.policy, inputs)  # inputs are not needed any more
    _add(inputs, part.places, deltas)
    if not model.shared and batch.critic_obs.shape[1] == 0:
        slopes_after_backward(weights, model.value, 0, count, scratch.value, inputs)
        _add(inputs, part.places, deltas)
    unroll_back(weights, slope, cell, first, part.table, remembered)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _add(rows: NDArray[np.float32], places: NDArray[np.int64], out: NDArray[np.float32]) -> None:
    for k in range(rows.shape[0]):
        place = places[k]
        for j in range(rows.shape[1]):
            out[place, j] += rows[k, j]
