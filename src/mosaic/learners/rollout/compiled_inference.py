"""Batched decisions and values of several policies: rows are sorted by policy, so that each is one matrix product."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.random import next_uniform
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.engines.fused_ppo_update import Batch
from mosaic.learners.rollout.arrays import Track
from mosaic.models.architecture import Architecture
from mosaic.models.fused import OBSERVATION_LIMIT, Model, Scratch, act_rows, value_rows

# numba compiles a function again for every constant and every memory layout that it is called with, and all of it again
# within its caller: arguments here are whole C-ordered rows and variables.
_FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True}
_ZERO = np.float32(0)


class Pool(NamedTuple):
    """Weights of all policies of one architecture: learners first, then frozen places."""

    weights: NDArray[np.float32]  # [policies, size]
    shift: NDArray[np.float32]  # [policies or 0, D] policies see (x - shift) * scale
    scale: NDArray[np.float32]
    seen: NDArray[np.float64]  # [policies or 0, 2, D] sums of their observations and of the squares
    seen_count: NDArray[np.float64]  # [policies] number of these observations


class InferenceBuffers(NamedTuple):
    """Scratch memory to sort rows by policy."""

    order: NDArray[np.int64]  # [M]
    start: NDArray[np.int64]  # [policies + 1]
    obs: NDArray[np.float32]  # [M, D]
    critic_obs: NDArray[np.float32]  # [M, critic's width, or 0]
    mask: NDArray[np.uint8]
    act: NDArray[np.float32]
    logp: NDArray[np.float32]
    value: NDArray[np.float32]
    final: NDArray[np.float32]  # [E*A, D] final observations of truncated agents
    final_critic: NDArray[np.float32]
    final_value: NDArray[np.float32]
    rng: NDArray[np.uint64]  # [M]
    clock: NDArray[np.int64]  # [2] processor cycles spent on inference and on stepping


def make_inference_buffers(
    shape: VectorShape, architecture: Architecture, policies: int, seed: int
) -> InferenceBuffers:
    slots, rows, width = shape.slots, shape.rows, shape.width
    critic = architecture.critic_observation

    def zeros(*size: int) -> NDArray[np.float32]:
        return np.zeros(size, np.float32)

    return InferenceBuffers(
        order=np.zeros(slots, np.int64),
        start=np.zeros(policies + 1, np.int64),
        obs=zeros(slots, width),
        critic_obs=zeros(slots if critic else 1, critic),
        mask=np.ones((slots if shape.masked else 0, shape.mask_width), np.uint8),
        act=zeros(slots, shape.parts),
        logp=zeros(slots),
        value=zeros(max(slots, rows)),
        final=zeros(rows, width),
        final_critic=zeros(rows if critic else 1, critic),
        final_value=zeros(rows),
        rng=np.random.default_rng(seed).integers(1, 2**62, slots).astype(np.uint64),
        clock=np.zeros(2, np.int64),
    )


def make_pool(weights: NDArray[np.float32], width: int, normalise: bool) -> Pool:
    policies = weights.shape[0]
    rows = policies if normalise else 0
    return Pool(
        weights=weights,
        shift=np.zeros((rows, width), np.float32),
        scale=np.ones((rows, width), np.float32),
        seen=np.zeros((rows, 2, width)),
        seen_count=np.zeros(policies),
    )


@njit(**_FAST)
def normalize_rows(
    obs: NDArray[np.float32], policy_of: NDArray[np.int64], pool: Pool, out: NDArray[np.float32]
) -> None:
    """Copy observations, normalised for the policy that decides on them."""
    rows, width = obs.shape
    if pool.shift.shape[0] == 0:
        for row in range(rows):
            for column in range(width):
                out[row, column] = obs[row, column]
        return
    for row in range(rows):
        policy = policy_of[row]
        for column in range(width):
            x = obs[row, column]
            y = (x - pool.shift[policy, column]) * pool.scale[policy, column]
            out[row, column] = min(max(y, -OBSERVATION_LIMIT), OBSERVATION_LIMIT)


@njit(**_FAST)
def count_seen(obs: NDArray[np.float32], policy_of: NDArray[np.int64], pool: Pool) -> None:
    """Count the observations that a policy decides on, where observations are normalised."""
    if pool.seen.shape[0] == 0:
        return
    for row in range(obs.shape[0]):
        policy = policy_of[row]
        pool.seen_count[policy] += 1.0
        for column in range(obs.shape[1]):
            pool.seen[policy, 0, column] += obs[row, column]
            pool.seen[policy, 1, column] += obs[row, column] * obs[row, column]


@njit(**_FAST)
def join_observations(obs: NDArray[np.float32], agents: int, out: NDArray[np.float32]) -> None:
    """Join the observations for a centralised critic: the agent's own first, then the others' in cyclic order."""
    rows, width = obs.shape
    for row in range(rows):
        first = row // agents * agents
        for k in range(agents):
            other = first + (row - first + k) % agents
            for column in range(width):
                out[row, k * width + column] = obs[other, column]


@njit(**_FAST)
def sort_rows(policy_of: NDArray[np.int64], policies: int, buffers: InferenceBuffers) -> None:
    """Sort rows by policy (counting sort): `order` lists the slots, `start[k]` is the first of policy k."""
    start = buffers.start
    start[:] = 0
    for row in range(policy_of.shape[0]):
        start[policy_of[row] + 1] += 1
    for policy in range(policies):
        start[policy + 1] += start[policy]
    for row in range(policy_of.shape[0]):
        policy = policy_of[row]
        buffers.order[start[policy]] = row
        start[policy] += 1
    for policy in range(policies, 0, -1):
        start[policy] = start[policy - 1]
    start[0] = 0


@njit(**_FAST)
def slip(buffers: InferenceBuffers, sizes: NDArray[np.int64], low: int, high: int, probability: np.float32) -> None:
    """Replace moves of frozen opponents by random ones.

    This gives the learner new positions without bias, since it does not learn from these rows.
    """
    masked = buffers.mask.shape[0] > 0
    for row in range(low, high):
        if next_uniform(buffers.rng, row) < probability:
            first = 0
            for part in range(sizes.shape[0]):
                legal = 0
                for action in range(sizes[part]):
                    if not masked or buffers.mask[row, first + action]:
                        legal += 1
                        if next_uniform(buffers.rng, row) * legal < 1.0:
                            buffers.act[row, part] = np.float32(action)
                first += sizes[part]


@njit(**_FAST)
def decide_sorted(
    pool: Pool,
    model: Model,
    batch: Batch,
    track: Track,
    time: int,
    buffers: InferenceBuffers,
    scratch: Scratch,
    learners: int,
    slips: NDArray[np.float32],
) -> None:
    """Decide for every slot, each by its own policy."""
    slots = track.policy_of.shape[1]
    base = time * slots
    masked, central = buffers.mask.shape[0] > 0, buffers.critic_obs.shape[1] > 0
    policies = pool.weights.shape[0]
    sort_rows(track.policy_of[time], policies, buffers)
    for row in range(slots):
        place = base + buffers.order[row]
        for column in range(buffers.obs.shape[1]):
            buffers.obs[row, column] = batch.obs[place, column]
        if masked:
            for column in range(buffers.mask.shape[1]):
                buffers.mask[row, column] = batch.mask[place, column]
        if central:
            for column in range(buffers.critic_obs.shape[1]):
                buffers.critic_obs[row, column] = batch.critic_obs[place, column]
    for policy in range(policies):
        low, high = buffers.start[policy], buffers.start[policy + 1]
        if high > low:
            obs = buffers.obs[low:high]
            act_rows(
                pool.weights[policy],
                model,
                obs,
                buffers.critic_obs[low:high] if central else obs,
                buffers.mask[low:high] if masked else buffers.mask,
                scratch,
                buffers.rng[low:high],
                buffers.act[low:high],
                buffers.logp[low:high],
                buffers.value[low:high],
            )
            if policy >= learners and slips[policy - learners] > _ZERO:
                slip(buffers, model.head.sizes, low, high, slips[policy - learners])
    for row in range(slots):
        slot = buffers.order[row]
        batch.logp[base + slot] = buffers.logp[row]
        track.value[time, slot] = buffers.value[row]
        for part in range(buffers.act.shape[1]):
            batch.act[base + slot, part] = buffers.act[row, part]


@njit(**_FAST)
def value_by_policy(
    pool: Pool,
    model: Model,
    learners: int,
    policy_of: NDArray[np.int64],
    obs: NDArray[np.float32],
    critic_obs: NDArray[np.float32],
    rows: int,
    buffers: InferenceBuffers,
    scratch: Scratch,
    out: NDArray[np.float32],
) -> None:
    """Compute values of the first `rows` rows, each by its own learner; opponents' rows get learner 0's, never read."""
    central = critic_obs.shape[1] > 0
    x = obs[:rows]
    y = critic_obs[:rows] if central else x
    for policy in range(learners):
        value_rows(pool.weights[policy], model, x, y, scratch, buffers.value[:rows])
        for row in range(rows):
            if policy == 0 or policy_of[row] == policy:
                out[row] = buffers.value[row]
