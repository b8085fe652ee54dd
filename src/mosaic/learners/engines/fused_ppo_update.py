"""PPO update of a dense network: the clipped loss, its gradient by hand, epochs of minibatches.

Row loops are inside the functions: a call per row with ten arrays costs more than the row's arithmetic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.learners.engines.adam import Optimiser, adam, make_optimiser
from mosaic.models.dense import backward, last_delta, matrix
from mosaic.models.engine import LearnSettings
from mosaic.models.fused import CATEGORICAL, Model, OutputHead, Scratch, outputs
from mosaic.models.random import draw_below

__all__ = ["Batch", "Hyper", "Optimiser", "adam", "gradient", "make_batch", "make_hyper", "make_optimiser", "update"]

ADAM_EPSILON = 1e-5
KL_PATIENCE = 1.5  # an update stops when a minibatch has moved this many times target_kl, as in Stable-Baselines3

# Indices into `stats`, all sums; the first five and the last over rows
POLICY_LOSS, VALUE_LOSS, ENTROPY, CLIPPED, KL, ROWS, GRADIENT_NORM, MINIBATCHES, ANCHOR_KL = range(9)
STATS = 9

_ZERO, _HALF, _ONE, _TWO = np.float32(0), np.float32(0.5), np.float32(1), np.float32(2)
_LOWEST, _FORBIDDEN = np.float32(-1e30), np.float32(-1e9)
_LOG_ROOT_TWO_PI = np.float32(0.9189385332)
_SPREAD_GUARD = np.float32(1e-8)


class Hyper(NamedTuple):
    """Hyperparameters of PPO; one numpy type each, so that nothing is compiled twice; schedules use `_replace`."""

    n_epochs: np.int64
    batch_size: np.int64  # rows of a minibatch
    gamma: np.float32
    gae_lambda: np.float32
    clip_range: np.float32
    ent_coef: np.float32
    vf_coef: np.float32
    max_grad_norm: np.float32  # 0: no clipping
    clip_range_vf: np.float32  # 0: no clipping
    target_kl: np.float32  # 0: never stop early
    normalise: np.int64  # 1: normalise the advantages of a minibatch to mean 0 and deviation 1
    kl_anchor: np.float32  # weight of the KL divergence from the anchor
    imitate: np.int64  # 1: minimise -log-probability, weighted by `adv`, instead of the PPO loss


class Batch(NamedTuple):
    """Rows of experience."""

    obs: NDArray[np.float32]
    critic_obs: NDArray[np.float32]  # without columns where the critic reads obs
    mask: NDArray[np.uint8]  # without rows where everything is legal
    act: NDArray[np.float32]
    logp: NDArray[np.float32]  # of the action when it was drawn
    val: NDArray[np.float32]  # of the state at that time
    adv: NDArray[np.float32]
    ret: NDArray[np.float32]
    anchor: NDArray[np.float32]  # the anchor's log-probabilities, or means and log_std; no rows: there is no anchor


def make_hyper(settings: LearnSettings) -> Hyper:
    return Hyper(
        n_epochs=np.int64(settings.n_epochs),
        batch_size=np.int64(settings.batch_size),
        gamma=np.float32(settings.gamma),
        gae_lambda=np.float32(settings.gae_lambda),
        clip_range=np.float32(settings.clip_range),
        ent_coef=np.float32(settings.ent_coef),
        vf_coef=np.float32(settings.vf_coef),
        max_grad_norm=np.float32(settings.max_grad_norm),
        clip_range_vf=np.float32(settings.clip_range_vf or 0),
        target_kl=np.float32(settings.target_kl or 0),
        normalise=np.int64(settings.normalize_advantage and not settings.imitate),
        kl_anchor=np.float32(settings.kl_anchor),
        imitate=np.int64(settings.imitate),
    )


def make_batch(rows: int, obs: int, parts: int, mask_width: int = 0, critic: int = 0, anchor: int = 0) -> Batch:
    """Allocate a batch; widths are of a row, an action, a mask, a centralised critic's row and an anchor (0: none)."""

    def zeros(*shape: int) -> NDArray[np.float32]:
        return np.zeros(shape, np.float32)

    mask = np.ones((rows if mask_width else 0, mask_width), np.uint8)
    wide = (zeros(rows, obs), zeros(rows, critic), mask, zeros(rows, parts))
    numbers = (zeros(rows), zeros(rows), zeros(rows), zeros(rows))
    return Batch(*wide, *numbers, anchor=zeros(rows if anchor else 0, anchor))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def update(
    optimiser: Optimiser,
    model: Model,
    hyper: Hyper,
    lr: float,
    batch: Batch,
    idx: NDArray[np.int64],
    scratch: Scratch,
    rng: NDArray[np.uint64],
    stats: NDArray[np.float64],
) -> int:
    """Run epochs of shuffled minibatches over the rows in idx, which is left shuffled; return the number of steps.

    The last minibatch of an epoch may be smaller; its mean counts as much as the others'. Draws from rng[0].
    """
    rows = idx.shape[0]
    steps = 0
    for _ in range(hyper.n_epochs):
        for i in range(rows - 1, 0, -1):
            j = draw_below(rng, 0, i + 1)
            idx[i], idx[j] = idx[j], idx[i]
        for start in range(0, rows, hyper.batch_size):
            chosen = idx[start : min(start + hyper.batch_size, rows)]
            moved = stats[KL]
            gradient(optimiser.weights, optimiser.gradient, model, hyper, batch, chosen, scratch, stats)
            moved = (stats[KL] - moved) / chosen.shape[0]
            if hyper.target_kl > 0 and moved > KL_PATIENCE * hyper.target_kl:
                return steps
            stats[GRADIENT_NORM] += adam(optimiser, lr, hyper.max_grad_norm, ADAM_EPSILON)
            stats[MINIBATCHES] += 1
            steps += 1
    return steps


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def gradient(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    model: Model,
    hyper: Hyper,
    batch: Batch,
    idx: NDArray[np.int64],
    scratch: Scratch,
    stats: NDArray[np.float64],
) -> None:
    """Overwrite `slope` with the gradient of the PPO loss, averaged over the rows in idx; add sums to stats."""
    inputs = gathered(batch.obs, idx, model.policy.dims[0], scratch.inputs)
    gradient_of_inputs(weights, slope, model, hyper, batch, idx, inputs, scratch, stats)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def gradient_of_inputs(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    model: Model,
    hyper: Hyper,
    batch: Batch,
    idx: NDArray[np.int64],
    inputs: NDArray[np.float32],
    scratch: Scratch,
    stats: NDArray[np.float64],
) -> None:
    """Do as `gradient` where the dense layers read `inputs` instead of the rows' observations."""
    rows = idx.shape[0]
    head = model.head
    critic_inputs = inputs
    if not model.shared and batch.critic_obs.shape[1] > 0:
        critic_inputs = gathered(batch.critic_obs, idx, model.value.dims[0], scratch.critic_inputs)
    out, values = outputs(weights, model, inputs, critic_inputs, scratch)
    delta = last_delta(model.policy, rows, scratch.policy)
    value_delta = delta
    if not model.shared:
        value_delta = last_delta(model.value, rows, scratch.value)
    mean, spread = _advantage_scale(batch.adv, idx, hyper.normalise)
    _value_delta(values, value_delta, batch, idx, hyper, stats)
    if head.kind == CATEGORICAL:
        _choice_delta(head, out, delta, batch, idx, hyper, mean, spread, stats)
    else:
        slope[head.log_std : head.log_std + head.parts] = _ZERO
        _number_delta(weights, slope, head, out, delta, batch, idx, hyper, mean, spread, stats)
    stats[ROWS] += rows
    backward(weights, slope, model.policy, inputs, scratch.policy)
    if not model.shared:
        backward(weights, slope, model.value, critic_inputs, scratch.value)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def gathered(
    rows: NDArray[np.float32], idx: NDArray[np.int64], width: int, room: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Gather the first columns of the listed rows into a contiguous matrix."""
    found: NDArray[np.float32] = matrix(room, 0, idx.shape[0], width)
    for i in range(idx.shape[0]):
        row = idx[i]
        for j in range(width):
            found[i, j] = rows[row, j]
    return found


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _advantage_scale(adv: NDArray[np.float32], idx: NDArray[np.int64], normalise: int) -> tuple[np.float32, np.float32]:
    """Return the offset and factor that normalise advantages; a single row has no deviation."""
    rows = idx.shape[0]
    if normalise == 0 or rows < 2:
        return _ZERO, _ONE
    mean = _ZERO
    for i in range(rows):
        mean += adv[idx[i]]
    mean /= np.float32(rows)
    squares = _ZERO
    for i in range(rows):
        squares += (adv[idx[i]] - mean) ** 2
    return mean, _ONE / (np.sqrt(squares / np.float32(rows - 1)) + _SPREAD_GUARD)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _value_delta(
    values: NDArray[np.float32],
    delta: NDArray[np.float32],
    batch: Batch,
    idx: NDArray[np.int64],
    hyper: Hyper,
    stats: NDArray[np.float64],
) -> None:
    """Write d(loss) / d(value) of the squared error; with clipping, of the larger of the free and the clipped error."""
    rows = idx.shape[0]
    column = values.shape[1] - 1
    ret, val, limit = batch.ret, batch.val, hyper.clip_range_vf
    scale = _TWO * hyper.vf_coef / np.float32(rows)
    loss = _ZERO
    for i in range(rows):
        row = idx[i]
        error = values[i, column] - ret[row]
        push = error
        if limit > _ZERO:
            moved = values[i, column] - val[row]
            held = val[row] + min(max(moved, -limit), limit) - ret[row]
            # check that the clip is active: unclipped, both errors are equal except for rounding
            if abs(moved) > limit and abs(held) > abs(error):
                error = held
                push = _ZERO
        delta[i, column] = scale * push
        loss += error * error
    stats[VALUE_LOSS] += loss


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="always")
def _surrogate(advantage: np.float32, ratio: np.float32, clip: np.float32) -> np.float32:
    """Return d(-min(ratio * advantage, clipped ratio * advantage)) / d(log-probability)."""
    free = ratio < _ONE + clip if advantage >= _ZERO else ratio > _ONE - clip
    return -advantage * ratio if free else _ZERO


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True, inline="always")
def _surrogate_loss(advantage: np.float32, ratio: np.float32, clip: np.float32) -> np.float32:
    return -min(ratio * advantage, min(max(ratio, _ONE - clip), _ONE + clip) * advantage)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _choice_delta(
    head: OutputHead,
    out: NDArray[np.float32],
    delta: NDArray[np.float32],
    batch: Batch,
    idx: NDArray[np.int64],
    hyper: Hyper,
    mean: np.float32,
    spread: np.float32,
    stats: NDArray[np.float64],
) -> None:
    """Compute d(loss) / d(logits)."""
    rows, parts, sizes = idx.shape[0], head.sizes.shape[0], head.sizes
    act, logp, adv, mask = batch.act, batch.logp, batch.adv, batch.mask
    masked = mask.shape[0] > 0
    clip = hyper.clip_range
    scale = _ONE / np.float32(rows)
    bonus = hyper.ent_coef * scale
    anchor, anchored = batch.anchor, batch.anchor.shape[0] > 0
    pull = hyper.kl_anchor * scale
    loss, entropy, kl, apart, clipped = _ZERO, _ZERO, _ZERO, _ZERO, 0
    for i in range(rows):
        row = idx[i]
        log_probability = _ZERO
        first = 0
        for part in range(parts):  # log-probabilities into out, probabilities into delta
            end = first + sizes[part]
            if masked:
                for a in range(first, end):
                    if mask[row, a] == 0:
                        out[i, a] = _FORBIDDEN
            top = _LOWEST
            for a in range(first, end):
                top = max(top, out[i, a])
            total = _ZERO
            for a in range(first, end):
                share = np.exp(out[i, a] - top)
                delta[i, a] = share
                total += share
            log_total, inverse = top + np.log(total), _ONE / total
            for a in range(first, end):
                out[i, a] -= log_total
                delta[i, a] *= inverse
            log_probability += out[i, first + np.int64(act[row, part])]
            first = end
        advantage = (adv[row] - mean) * spread
        change = log_probability - logp[row] if hyper.imitate == 0 else _ZERO
        ratio = np.exp(change)
        push = _surrogate(advantage, ratio, clip) * scale
        first = 0
        for part in range(parts):
            end = first + sizes[part]
            disorder = _ZERO
            for a in range(first, end):
                disorder -= delta[i, a] * out[i, a]
            for a in range(first, end):
                delta[i, a] *= bonus * (out[i, a] + disorder) - push
            delta[i, first + np.int64(act[row, part])] += push
            entropy += disorder
            if anchored:
                for a in range(first, end):
                    usual = np.exp(anchor[row, a])
                    delta[i, a] += pull * (np.exp(out[i, a]) - usual)
                    apart += usual * (anchor[row, a] - out[i, a])
            first = end
        if hyper.imitate == 0:
            loss += _surrogate_loss(advantage, ratio, clip)
        else:
            loss -= advantage * log_probability
        kl += ratio - _ONE - change
        if abs(ratio - _ONE) > clip:
            clipped += 1
    stats[POLICY_LOSS] += loss
    stats[ENTROPY] += entropy
    stats[CLIPPED] += clipped
    stats[KL] += kl
    stats[ANCHOR_KL] += apart


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _number_delta(
    weights: NDArray[np.float32],
    slope: NDArray[np.float32],
    head: OutputHead,
    out: NDArray[np.float32],
    delta: NDArray[np.float32],
    batch: Batch,
    idx: NDArray[np.int64],
    hyper: Hyper,
    mean: np.float32,
    spread: np.float32,
    stats: NDArray[np.float64],
) -> None:
    """Compute d(loss) / d(means); add d(loss) / d(log_std) to slope."""
    rows, parts, place = idx.shape[0], head.parts, head.log_std
    act, logp, adv = batch.act, batch.logp, batch.adv
    clip = hyper.clip_range
    scale = _ONE / np.float32(rows)
    bonus = hyper.ent_coef * scale
    anchor, anchored = batch.anchor, batch.anchor.shape[0] > 0
    pull = hyper.kl_anchor * scale
    loss, kl, apart, clipped = _ZERO, _ZERO, _ZERO, 0
    disorder = _ZERO
    for part in range(parts):
        disorder += weights[place + part] + _HALF + _LOG_ROOT_TWO_PI
    for i in range(rows):
        row = idx[i]
        log_probability = _ZERO
        for part in range(parts):
            noise = (act[row, part] - out[i, part]) * np.exp(-weights[place + part])
            log_probability -= _HALF * noise * noise + weights[place + part] + _LOG_ROOT_TWO_PI
        advantage = (adv[row] - mean) * spread
        change = log_probability - logp[row] if hyper.imitate == 0 else _ZERO
        ratio = np.exp(change)
        push = _surrogate(advantage, ratio, clip) * scale
        for part in range(parts):
            sharpness = np.exp(-weights[place + part])
            noise = (act[row, part] - out[i, part]) * sharpness
            delta[i, part] = push * noise * sharpness
            slope[place + part] += push * (noise * noise - _ONE) - bonus
            if anchored:
                usual, log_std = anchor[row, part], anchor[row, parts + part]
                far = (out[i, part] - usual) * sharpness
                wide = np.exp(log_std - weights[place + part])
                delta[i, part] += pull * far * sharpness
                slope[place + part] += pull * (_ONE - wide * wide - far * far)
                apart += weights[place + part] - log_std + _HALF * (wide * wide + far * far - _ONE)
        if hyper.imitate == 0:
            loss += _surrogate_loss(advantage, ratio, clip)
        else:
            loss -= advantage * log_probability
        kl += ratio - _ONE - change
        if abs(ratio - _ONE) > clip:
            clipped += 1
    stats[POLICY_LOSS] += loss
    stats[ENTROPY] += disorder * np.float32(rows)
    stats[CLIPPED] += clipped
    stats[KL] += kl
    stats[ANCHOR_KL] += apart
