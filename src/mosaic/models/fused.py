"""Compiled inference of dense networks for many rows at once.

Rows may be wider than the network reads, masks and actions wider than its head: the first columns count. A mask without
rows means that everything is legal. A critic row without columns means that the critic reads the policy's row.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.numba_cache import njit
from mosaic.models.activations import fast_tanh
from mosaic.models.architecture import HEADS, Architecture
from mosaic.models.dense import Net, NetScratch, forward, make_net, make_net_scratch, matrix, no_net_scratch
from mosaic.models.layout import LOG_STD, POLICY, critic_place, policy_dims, tensors, value_dims
from mosaic.models.random import draw_normal, draw_uniform, random_streams

CATEGORICAL, GAUSSIAN, SQUASHED = 0, 1, 2
LOG_STD_LOW, LOG_STD_HIGH = np.float32(-20), np.float32(2)  # range of a squashed Gaussian's log deviations
OBSERVATION_LIMIT = np.float32(10)  # clipping range of normalised observations, in training and play

SQUASH_GUARD = np.float32(1e-6)  # as in SB3: the density of a squashed number stays finite

_ZERO, _HALF, _ONE = np.float32(0), np.float32(0.5), np.float32(1)
_LOWEST = np.float32(-1e30)
_FORBIDDEN = np.float32(-1e9)  # fastmath does not support infinity
_LOG_ROOT_TWO_PI = np.float32(0.9189385332)


class OutputHead(NamedTuple):
    """Mapping from network outputs to actions."""

    kind: np.int64  # CATEGORICAL, GAUSSIAN or SQUASHED
    sizes: NDArray[np.int64]  # number of choices of each categorical part
    width: np.int64  # number of outputs
    parts: np.int64  # number of components of an action
    log_std: np.int64  # offset of the Gaussian's log standard deviations in the flat weights


class Model(NamedTuple):
    """Offsets of all tensors in one flat vector of weights."""

    policy: Net  # if shared, its last output is the value
    value: Net  # if shared, the policy net
    head: OutputHead
    shared: bool


class Scratch(NamedTuple):
    """Buffers for a batch; each thread needs its own."""

    inputs: NDArray[np.float32]
    critic_inputs: NDArray[np.float32]
    policy: NetScratch
    value: NetScratch


def build_model(architecture: Architecture) -> Model:
    if not architecture.fusible:
        raise InputError("The fused engine supports neither pictures nor LSTMs: use the torch engine (engine: torch).")
    places = tensors(architecture)
    start = next(tensor.start for tensor in places if tensor.name.startswith(POLICY))
    policy = value = make_net(policy_dims(architecture), architecture.activation, start)
    if not architecture.shared:
        start = critic_place(architecture).start
        value = make_net(value_dims(architecture), architecture.activation, start)
    head = architecture.head
    kind = HEADS.index(head.kind)
    log_std = next((tensor.start for tensor in places if tensor.name == LOG_STD), 0)
    return Model(
        policy,
        value,
        OutputHead(
            np.int64(kind), _integers(head.sizes), np.int64(head.width), np.int64(head.parts), np.int64(log_std)
        ),
        bool(architecture.shared),
    )


def _integers(values: tuple[int, ...]) -> NDArray[np.int64]:
    return np.array(values, np.int64)


def make_scratch(model: Model, rows: int) -> Scratch:
    """Allocate buffers for batches of up to `rows` rows."""
    inputs = np.zeros(rows * int(model.policy.dims[0]), np.float32)
    critic_inputs = np.zeros(1 if model.shared else rows * int(model.value.dims[0]), np.float32)
    value = no_net_scratch() if model.shared else make_net_scratch(model.value, rows)
    return Scratch(inputs, critic_inputs, make_net_scratch(model.policy, rows), value)


class RowBuffers:
    """Scratch memory and one random stream per row, which grow with the largest batch."""

    def __init__(self, model: Model, seed: int, rows: int = 0) -> None:
        self._model, self._seed = model, seed
        self.scratch = make_scratch(model, rows)
        self.streams = random_streams(seed, rows)

    def reserve(self, rows: int) -> None:
        """Make room for this many rows; streams that were already drawn from continue."""
        used = len(self.streams)
        if rows > used:
            streams = random_streams(self._seed, rows)
            streams[:used] = self.streams
            self.streams, self.scratch = streams, make_scratch(self._model, rows)

    def reseed(self, seed: int) -> None:
        self._seed = seed
        self.streams = random_streams(seed, len(self.streams))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def fitting(rows: NDArray[np.float32], width: int, room: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the rows, cut to the width that a net reads."""
    if rows.shape[1] == width:
        return rows
    cut: NDArray[np.float32] = matrix(room, 0, rows.shape[0], width)
    for i in range(rows.shape[0]):
        for j in range(width):
            cut[i, j] = rows[i, j]
    return cut


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def policy_outputs(
    weights: NDArray[np.float32], model: Model, obs: NDArray[np.float32], scratch: Scratch
) -> NDArray[np.float32]:
    """Return logits or means in the first `head.width` columns."""
    inputs = fitting(obs, model.policy.dims[0], scratch.inputs)
    out: NDArray[np.float32] = forward(weights, model.policy, inputs, scratch.policy)
    return out


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def value_outputs(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    scratch: Scratch,
) -> NDArray[np.float32]:
    """Return values in the last column, computed by the separate value net."""
    seen = obs if critic_obs.shape[1] == 0 else critic_obs
    inputs = fitting(seen, model.value.dims[0], scratch.critic_inputs)
    out: NDArray[np.float32] = forward(weights, model.value, inputs, scratch.value)
    return out


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def outputs(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    scratch: Scratch,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return logits or means in the first `head.width` columns, and values in the last; the same array if shared."""
    out = policy_outputs(weights, model, obs, scratch)
    if model.shared:
        return out, out
    return out, value_outputs(weights, model, obs, critic_obs, scratch)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def act_rows(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    mask: NDArray[np.uint8],
    scratch: Scratch,
    rng: NDArray[np.uint64],
    act: NDArray[np.float32],
    logp: NDArray[np.float32],
    val: NDArray[np.float32],
) -> None:
    """Sample one decision for every row: action, its log-probability, the value of the state."""
    out, values = outputs(weights, model, obs, critic_obs, scratch)
    column = values.shape[1] - 1
    for i in range(obs.shape[0]):
        val[i] = values[i, column]
    sample(weights, model.head, out, mask, rng, act, logp)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def sample_rows(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    mask: NDArray[np.uint8],
    scratch: Scratch,
    rng: NDArray[np.uint64],
    act: NDArray[np.float32],
    logp: NDArray[np.float32],
) -> None:
    """Sample like `act_rows`, without values: a policy may act where its critic's observation is not available."""
    sample(weights, model.head, policy_outputs(weights, model, obs, scratch), mask, rng, act, logp)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def greedy_rows(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    mask: NDArray[np.uint8],
    scratch: Scratch,
    act: NDArray[np.float32],
) -> None:
    """Write the most probable action of every row; ties go to the lowest."""
    best_actions(model.head, policy_outputs(weights, model, obs, scratch), mask, act)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def value_rows(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    scratch: Scratch,
    val: NDArray[np.float32],
) -> None:
    if model.shared:
        values = policy_outputs(weights, model, obs, scratch)
    else:
        values = value_outputs(weights, model, obs, critic_obs, scratch)
    column = values.shape[1] - 1
    for i in range(obs.shape[0]):
        val[i] = values[i, column]


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def probabilities(
    weights: NDArray[np.float32],
    model: Model,
    obs: NDArray[np.float32],
    mask: NDArray[np.uint8],
    scratch: Scratch,
    shares: NDArray[np.float32],
) -> None:
    """Write the probability of every choice of a categorical head, part after part, into shares [rows, head.width]."""
    out = policy_outputs(weights, model, obs, scratch)
    head = model.head
    forbid(head, out, mask)
    for i in range(out.shape[0]):
        first = 0
        for part in range(head.sizes.shape[0]):
            end = first + head.sizes[part]
            top = _LOWEST
            for a in range(first, end):
                top = max(top, out[i, a])
            total = _ZERO
            for a in range(first, end):
                shares[i, a] = np.exp(out[i, a] - top)
                total += shares[i, a]
            for a in range(first, end):
                shares[i, a] /= total
            first = end


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def forbid(head: OutputHead, out: NDArray[np.float32], mask: NDArray[np.uint8]) -> None:
    """Overwrite the logits of illegal choices; row i of the mask belongs to row i of the logits."""
    if mask.shape[0] > 0:
        for i in range(out.shape[0]):
            for a in range(head.width):
                if mask[i, a] == 0:
                    out[i, a] = _FORBIDDEN


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def sample(
    weights: NDArray[np.float32],
    head: OutputHead,
    out: NDArray[np.float32],
    mask: NDArray[np.uint8],
    rng: NDArray[np.uint64],
    act: NDArray[np.float32],
    logp: NDArray[np.float32],
) -> None:
    """Sample actions from outputs; row i draws from stream i."""
    if head.kind == CATEGORICAL:
        forbid(head, out, mask)
        _sample_choices(head, out, rng, act, logp)
    elif head.kind == SQUASHED:
        sample_squashed(head.parts, out, rng, act, logp)
    else:
        _sample_numbers(weights, head, out, rng, act, logp)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _sample_choices(
    head: OutputHead,
    out: NDArray[np.float32],
    rng: NDArray[np.uint64],
    act: NDArray[np.float32],
    logp: NDArray[np.float32],
) -> None:
    for i in range(out.shape[0]):
        first = 0
        log_probability = _ZERO
        for part in range(head.sizes.shape[0]):
            end = first + head.sizes[part]
            top = _LOWEST
            for a in range(first, end):
                top = max(top, out[i, a])
            total = _ZERO
            for a in range(first, end):
                total += np.exp(out[i, a] - top)
            level = draw_uniform(rng, i) * total
            passed = _ZERO
            chosen = first
            for a in range(first, end):
                share = np.exp(out[i, a] - top)
                if share > _ZERO:  # rounding may carry the level past the sum: the last possible choice is kept then
                    passed += share
                    chosen = a
                    if level < passed:
                        break
            act[i, part] = np.float32(chosen - first)
            log_probability += out[i, chosen] - top - np.log(total)
            first = end
        logp[i] = log_probability


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _sample_numbers(
    weights: NDArray[np.float32],
    head: OutputHead,
    out: NDArray[np.float32],
    rng: NDArray[np.uint64],
    act: NDArray[np.float32],
    logp: NDArray[np.float32],
) -> None:
    for i in range(out.shape[0]):
        log_probability = _ZERO
        for part in range(head.parts):
            log_std = weights[head.log_std + part]
            noise = draw_normal(rng, i)
            act[i, part] = out[i, part] + np.exp(log_std) * noise
            log_probability -= _HALF * noise * noise + log_std + _LOG_ROOT_TWO_PI
        logp[i] = log_probability


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def sample_squashed(
    parts: int, out: NDArray[np.float32], rng: NDArray[np.uint64], act: NDArray[np.float32], logp: NDArray[np.float32]
) -> None:
    """Sample numbers from -1 to 1 and their log-probabilities; row i draws from stream i."""
    for i in range(out.shape[0]):
        log_probability = _ZERO
        for part in range(parts):
            log_std = min(max(out[i, parts + part], LOG_STD_LOW), LOG_STD_HIGH)
            noise = draw_normal(rng, i)
            squashed = fast_tanh(out[i, part] + np.exp(log_std) * noise)
            act[i, part] = squashed
            log_probability -= _HALF * noise * noise + log_std + _LOG_ROOT_TWO_PI
            log_probability -= np.log(_ONE - squashed * squashed + SQUASH_GUARD)
        logp[i] = log_probability


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def best_actions(head: OutputHead, out: NDArray[np.float32], mask: NDArray[np.uint8], act: NDArray[np.float32]) -> None:
    if head.kind != CATEGORICAL:
        for i in range(out.shape[0]):
            for part in range(head.parts):
                act[i, part] = out[i, part] if head.kind == GAUSSIAN else fast_tanh(out[i, part])
        return
    forbid(head, out, mask)
    for i in range(out.shape[0]):
        first = 0
        for part in range(head.sizes.shape[0]):
            best = first
            for a in range(first + 1, first + head.sizes[part]):
                if out[i, a] > out[i, best]:
                    best = a
            act[i, part] = np.float32(best - first)
            first += head.sizes[part]
