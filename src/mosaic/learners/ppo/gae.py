"""Generalised advantage estimation (GAE) for any number of agents.

Every (env, agent) has its own trajectory: the decisions of that agent. The rewards between two of its decisions belong
to the first of them, so turn-based games, agents that act together and agents that die early are one case.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.learners.rollout.arrays import Track

_ZERO = np.float32(0)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def advantages(
    track: Track,
    agents: int,
    gamma: NDArray[np.float32],
    lam: NDArray[np.float32],
    reward_scale: NDArray[np.float32],
    adv: NDArray[np.float32],
    ret: NDArray[np.float32],
    known: NDArray[np.uint8],
) -> None:
    """Write advantage and return of every decision, flat over (time, slot); `known` marks those with an outcome.

    The last decision of an agent that is not on turn at the end has no successor yet: it is left out, and the one
    before it bootstraps from its value. `reward_scale` is per agent, `gamma` and `lam` are per policy that learns; rows
    of other policies, which are never read, get those of the first.
    """
    steps, slots = track.policy_of.shape
    envs = track.reward.shape[1] // agents
    per_env = slots // envs
    next_value = np.zeros(agents, np.float32)
    next_advantage = np.zeros(agents, np.float32)
    paid = np.zeros(agents, np.float32)
    seen = np.zeros(agents, np.uint8)
    for env in range(envs):
        next_value[:] = _ZERO
        next_advantage[:] = _ZERO
        paid[:] = _ZERO
        seen[:] = 0
        for slot in range(env * per_env, env * per_env + per_env):
            if track.active[steps, slot]:
                agent = track.who[steps, slot]
                next_value[agent] = track.value[steps, slot]
                seen[agent] = 1
        for time in range(steps - 1, -1, -1):
            for agent in range(agents):
                row = env * agents + agent
                if track.ended[time, row]:
                    next_value[agent] = track.bootstrap[time, row]
                    next_advantage[agent] = _ZERO
                    paid[agent] = _ZERO
                    seen[agent] = 1
                paid[agent] += track.reward[time, row] * reward_scale[agent]
            for slot in range(env * per_env, env * per_env + per_env):
                place = time * slots + slot
                known[place] = 0
                if not track.active[time, slot]:
                    continue
                agent = track.who[time, slot]
                value = track.value[time, slot]
                if seen[agent]:
                    policy = track.policy_of[time, slot]
                    if policy < 0 or policy >= gamma.shape[0]:
                        policy = 0
                    error = paid[agent] + gamma[policy] * next_value[agent] - value
                    next_advantage[agent] = error + gamma[policy] * lam[policy] * next_advantage[agent]
                    adv[place] = next_advantage[agent]
                    ret[place] = next_advantage[agent] + value
                    known[place] = 1
                else:
                    next_advantage[agent] = _ZERO
                    seen[agent] = 1
                next_value[agent] = value
                paid[agent] = _ZERO


@njit(cache=True, nogil=True, error_model="numpy")
def rows_of(policy_of: NDArray[np.int64], known: NDArray[np.uint8], policy: int, idx: NDArray[np.int64]) -> int:
    """Write the indices of a policy's decisions with a known outcome into `idx`; return their number."""
    flat = policy_of.reshape(-1)
    count = 0
    for place in range(flat.shape[0]):
        if known[place] and flat[place] == policy:
            idx[count] = place
            count += 1
    return count
