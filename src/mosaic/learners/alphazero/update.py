"""Replay buffer of AlphaZero and updates from it, compiled."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.learners.alphazero.self_play import Positions
from mosaic.learners.engines.adam import Optimiser, adam
from mosaic.models.dense import backward, forward, last_delta
from mosaic.models.fused import Model, Scratch
from mosaic.models.random import draw_below

POLICY_LOSS, VALUE_LOSS, ROWS, GRADIENT_NORM, UPDATES = range(5)  # in the sums of an iteration
STATS = 5
_ADAM_EPSILON = 1e-8

_ZERO, _ONE, _LOWEST = np.float32(0), np.float32(1), np.float32(-1e30)


class Images(NamedTuple):
    """Symmetries of the game, the identity first: entry i of an image is entry [s, i] of the original."""

    observation: NDArray[np.int64]  # [symmetries, width]
    actions: NDArray[np.int64]  # [symmetries, actions]


class TargetBatch(NamedTuple):
    obs: NDArray[np.float32]
    policy: NDArray[np.float32]
    value: NDArray[np.float32]


def make_batch(rows: int, width: int, actions: int) -> TargetBatch:
    return TargetBatch(
        np.zeros((rows, width), np.float32), np.zeros((rows, actions), np.float32), np.zeros(rows, np.float32)
    )


@njit(cache=True, nogil=True, error_model="numpy")
def store(buffer: Positions, done: Positions) -> int:
    """Move finished positions into the ring buffer; return their number."""
    size, count = buffer.value.shape[0], done.at[0]
    for row in range(count):
        to = buffer.at[0]
        for column in range(done.obs.shape[1]):
            buffer.obs[to, column] = done.obs[row, column]
        for action in range(done.policy.shape[1]):
            buffer.policy[to, action] = done.policy[row, action]
        buffer.value[to] = done.value[row]
        buffer.at[0] = (to + 1) % size
        buffer.at[1] = min(buffer.at[1] + 1, size)
    done.at[0] = 0
    return count  # type: ignore[no-any-return]


@njit(cache=True, nogil=True, error_model="numpy")
def draw_batch(buffer: Positions, images: Images, dice: NDArray[np.uint64], batch: TargetBatch) -> None:
    """Draw positions with replacement, each as one of its images."""
    for row in range(batch.value.shape[0]):
        source = draw_below(dice, 0, buffer.at[1])
        image = draw_below(dice, 0, images.actions.shape[0])
        for column in range(batch.obs.shape[1]):
            batch.obs[row, column] = buffer.obs[source, images.observation[image, column]]
        for action in range(batch.policy.shape[1]):
            batch.policy[row, action] = buffer.policy[source, images.actions[image, action]]
        batch.value[row] = buffer.value[source]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def gradient(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    model: Model,
    batch: TargetBatch,
    vf_coef: float,
    scratch: Scratch,
    stats: NDArray[np.float64],
) -> None:
    """Compute the gradient of the mean loss: cross-entropy of the policies, and half the squared error of the values.

    The error is that of the value within -1 and 1, as search reads it: a won position may be valued above 1. The policy
    loss in `stats` is the Kullback-Leibler divergence, which is 0 for a perfect fit.
    """
    rows, actions = batch.policy.shape
    out = forward(weights, model.policy, batch.obs, scratch.policy)
    delta = last_delta(model.policy, rows, scratch.policy)
    share = _ONE / np.float32(rows)
    for i in range(rows):
        top, total = _LOWEST, _ZERO
        for action in range(actions):
            if batch.policy[i, action] >= 0:
                top = max(top, out[i, action])
        for action in range(actions):
            if batch.policy[i, action] >= 0:
                total += np.exp(out[i, action] - top)
        log_total = np.log(total)
        for action in range(actions):
            wanted = batch.policy[i, action]
            delta[i, action] = _ZERO
            if wanted >= 0:
                log_share = out[i, action] - top - log_total
                delta[i, action] = (np.exp(log_share) - wanted) * share
                if wanted > np.float32(1e-12):
                    stats[POLICY_LOSS] += wanted * (np.log(wanted) - log_share)
        error = min(max(out[i, actions], -_ONE), _ONE) - batch.value[i]
        delta[i, actions] = np.float32(vf_coef) * error * share
        stats[VALUE_LOSS] += error * error
    stats[ROWS] += rows
    backward(weights, slope, model.policy, batch.obs, scratch.policy)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def learn(
    optimiser: Optimiser,
    model: Model,
    buffer: Positions,
    images: Images,
    dice: NDArray[np.uint64],
    batch: TargetBatch,
    scratch: Scratch,
    updates: int,
    lr: float,
    vf_coef: float,
    max_grad_norm: float,
    stats: NDArray[np.float64],
) -> None:
    """Take steps of Adam on batches from the buffer."""
    for _ in range(updates):
        draw_batch(buffer, images, dice, batch)
        gradient(optimiser.weights, optimiser.gradient, model, batch, vf_coef, scratch, stats)
        stats[GRADIENT_NORM] += adam(optimiser, lr, max_grad_norm, _ADAM_EPSILON)
        stats[UPDATES] += 1
