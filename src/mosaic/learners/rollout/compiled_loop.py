"""Compiled rollout loop that never returns to Python: observe, decide, step, record.

The env's step is a C function pointer, so that this file is compiled once for all envs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import KernelData
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.engines.fused_ppo_update import Batch
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, cycles, record_step
from mosaic.learners.rollout.compiled_inference import (
    InferenceBuffers,
    Pool,
    count_seen,
    decide_sorted,
    join_observations,
    normalize_rows,
    value_by_policy,
)
from mosaic.models.fused import Model, Scratch, act_rows

_FAST = {"cache": True, "nogil": True, "error_model": "numpy", "fastmath": True}


@njit(**_FAST)
def bootstrap(
    pool: Pool,
    model: Model,
    env: VectorArrays,
    track: Track,
    time: int,
    played_by: NDArray[np.int64],
    buffers: InferenceBuffers,
    scratch: Scratch,
    learners: int,
) -> None:
    """Compute the value of the final observation of every truncated agent."""
    agents, width = played_by.shape[1], env.fin.shape[1]
    joined = buffers.final_critic.shape[1] > 0
    cut = np.empty(env.trunc.shape[0], np.int64)
    rows = find_cut(env.term, env.trunc, cut)
    policy_of, other_policy, shown = np.empty(rows, np.int64), np.empty(1, np.int64), np.empty((1, width), np.float32)
    for place in range(rows):
        row = cut[place]
        first = row // agents * agents
        policy_of[place] = played_by[row // agents, row - first]
        normalize_rows(env.fin[row : row + 1], policy_of[place : place + 1], pool, buffers.final[place : place + 1])
        if joined:
            for k in range(agents):
                other = first + (row - first + k) % agents
                other_policy[0] = played_by[row // agents, other - first]
                normalize_rows(env.fin[other : other + 1], other_policy, pool, shown)
                for column in range(width):
                    buffers.final_critic[place, k * width + column] = shown[0, column]
    value_by_policy(
        pool,
        model,
        learners,
        policy_of,
        buffers.final,
        buffers.final_critic,
        rows,
        buffers,
        scratch,
        buffers.final_value,
    )
    for place in range(rows):
        track.bootstrap[time, cut[place]] = buffers.final_value[place]


@njit(**_FAST)
def find_cut(term: NDArray[np.uint8], trunc: NDArray[np.uint8], cut: NDArray[np.int64]) -> int:
    """List the rows of agents that were truncated and not terminated; return their number."""
    count = 0
    for row in range(trunc.shape[0]):
        if trunc[row] > term[row]:
            cut[count] = row
            count += 1
    return count


@njit(**_FAST)
def observe(
    env: VectorArrays, assignment: Assignment, pool: Pool, batch: Batch, track: Track, time: int, agents: int
) -> None:
    """Write the current observation of every slot into the batch."""
    slots = track.who.shape[1]
    per_env = slots // assignment.policy_of.shape[0]
    base = time * slots
    for slot in range(slots):
        agent = env.who[slot]
        track.who[time, slot] = agent
        track.policy_of[time, slot] = assignment.policy_of[slot // per_env, agent]
    count_seen(env.obs, track.policy_of[time], pool)
    normalize_rows(env.obs, track.policy_of[time], pool, batch.obs[base : base + slots])
    if batch.mask.shape[0] > 0:
        for slot in range(slots):
            for column in range(env.mask.shape[1]):
                batch.mask[base + slot, column] = env.mask[slot, column]
    if batch.critic_obs.shape[1] > 0:
        join_observations(batch.obs[base : base + slots], agents, batch.critic_obs[base : base + slots])


@njit(**_FAST)
def step_envs(
    step: Callable[..., None],
    data: KernelData,
    env: VectorArrays,
    act: NDArray[np.float32],
    reward: NDArray[np.float32],
) -> None:
    """Call the kernel of the envs, which writes its results into `env` and `reward`."""
    step(
        data.facts,
        data.state,
        data.ints,
        data.rng,
        act,
        env.obs,
        env.mask,
        env.who,
        reward,
        env.term,
        env.trunc,
        env.fin,
    )


@njit(**_FAST)
def collect(
    step: Callable[..., None],
    data: KernelData,
    env: VectorArrays,
    pool: Pool,
    model: Model,
    batch: Batch,
    track: Track,
    assignment: Assignment,
    tally: EpisodeTally,
    buffers: InferenceBuffers,
    scratch: Scratch,
    learners: int,
    gamma: np.float32,
) -> None:
    """Make T steps of every env; all state needed to continue is in the arrays."""
    steps, slots = track.policy_of.shape
    agents = assignment.policy_of.shape[1]
    masked, central = batch.mask.shape[0] > 0, batch.critic_obs.shape[1] > 0
    alone = pool.weights.shape[0] == 1
    played_by = np.empty_like(assignment.policy_of)
    for time in range(steps):
        begun = cycles()
        observe(env, assignment, pool, batch, track, time, agents)
        low, high = time * slots, time * slots + slots
        if alone:
            obs = batch.obs[low:high]
            act_rows(
                pool.weights[0],
                model,
                obs,
                batch.critic_obs[low:high] if central else obs,
                batch.mask[low:high] if masked else batch.mask,
                scratch,
                buffers.rng,
                batch.act[low:high],
                batch.logp[low:high],
                track.value[time],
            )
        else:
            decide_sorted(pool, model, batch, track, time, buffers, scratch, learners, assignment.slip)
        decided = cycles()
        step_envs(step, data, env, batch.act[low:high], track.reward[time])
        stepped = cycles()
        for env_index in range(played_by.shape[0]):
            for agent in range(agents):
                played_by[env_index, agent] = assignment.policy_of[env_index, agent]
        if record_step(tally, assignment, track, time, env.term, env.trunc, learners, gamma):
            bootstrap(pool, model, env, track, time, played_by, buffers, scratch, learners)
        buffers.clock[0] += decided - begun
        buffers.clock[1] += stepped - decided
    tally.decisions[0] += steps * slots
    value_last(env, assignment, pool, model, track, buffers, scratch, learners, agents)
    flat = batch.val.reshape(steps, slots)
    for time in range(steps):
        for slot in range(slots):
            flat[time, slot] = track.value[time, slot]


@njit(**_FAST)
def value_last(
    env: VectorArrays,
    assignment: Assignment,
    pool: Pool,
    model: Model,
    track: Track,
    buffers: InferenceBuffers,
    scratch: Scratch,
    learners: int,
    agents: int,
) -> None:
    """Compute the values of the observations after the last step."""
    steps, slots = track.policy_of.shape
    per_env = slots // assignment.policy_of.shape[0]
    policy_of = np.empty(slots, np.int64)
    for slot in range(slots):
        agent = env.who[slot]
        track.who[steps, slot] = agent
        policy_of[slot] = assignment.policy_of[slot // per_env, agent]
    normalize_rows(env.obs, policy_of, pool, buffers.obs)
    if buffers.critic_obs.shape[1] > 0:
        join_observations(buffers.obs, agents, buffers.critic_obs)
    value_by_policy(
        pool, model, learners, policy_of, buffers.obs, buffers.critic_obs, slots, buffers, scratch, track.value[steps]
    )
