"""Rollout worker of one policy with memory in compiled envs; a rollout never enters the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.numba_cache import njit
from mosaic.envs.compiled.vector import CompiledVector, KernelData
from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.engines.fused_memory import ActingMemory, FusedMemoryEngine, act_with_memory, value_with_memory
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, cycles, record_step
from mosaic.learners.rollout.buffers import Rollout
from mosaic.learners.rollout.compiled_loop import find_cut, step_envs
from mosaic.learners.rollout.python import PythonRollouts


class CompiledMemoryRollouts(PythonRollouts):
    """Python's rollouts, collected in compiled code, with the same results.

    For what `is_simple` is true of: agents act at the same time, by one policy, on observations as they are.
    """

    def watch(self, callback: Callable[[], bool]) -> None:
        """Do nothing: a rollout never returns to Python."""

    def collect(self) -> None:
        started = perf_counter()
        vector, buffer, engine = self.vector, self.buffer, self.policies.engines[0]
        assert isinstance(vector, CompiledVector)
        assert isinstance(engine, FusedMemoryEngine)
        self.policies.begin_rollout()
        clock = np.zeros(2, np.int64)
        collect(
            vector.kernel.step,
            vector.data,
            vector.arrays,
            engine.acting_memory(vector.shape.rows),
            buffer.rows,
            buffer.track,
            self.assignment,
            self.tally,
            buffer.owner,
            buffer.first,
            buffer.fresh,
            np.float32(self._learning[0].gamma),
            clock,
        )
        vector.rew[:] = buffer.track.reward[-1]  # as after a step of the vector env itself
        self.env_steps += buffer.steps * vector.shape.envs
        self._value_last()
        buffer.rows.val[:] = buffer.track.value[: buffer.steps].ravel()
        inference_s, env_s = clock / max(1, int(clock.sum())) * (perf_counter() - started)
        self.times.add(float(env_s), float(inference_s))


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def collect(
    step: Callable[..., None],
    data: KernelData,
    env: VectorArrays,
    acting: ActingMemory,
    batch: Rollout,
    track: Track,
    assignment: Assignment,
    tally: EpisodeTally,
    owner: NDArray[np.int64],
    first: NDArray[np.uint8],
    fresh: NDArray[np.uint8],
    gamma: np.float32,
    clock: NDArray[np.int64],
) -> None:
    """Make T steps of every env; a slot is an (env, agent), and all of them act in every step."""
    steps, slots = track.policy_of.shape
    agents = assignment.policy_of.shape[1]
    masked = batch.mask.shape[0] > 0
    learners = 1
    for time in range(steps):
        begun = cycles()
        low, high = time * slots, time * slots + slots
        for slot in range(slots):
            track.who[time, slot] = env.who[slot]
            track.policy_of[time, slot] = 0
            place = slot // agents * agents + env.who[slot]
            owner[low + slot] = place
            first[low + slot] = fresh[place]
            fresh[place] = 0
            for column in range(env.obs.shape[1]):
                batch.obs[low + slot, column] = env.obs[slot, column]
            if masked:
                for column in range(env.mask.shape[1]):
                    batch.mask[low + slot, column] = env.mask[slot, column]
        act_with_memory(
            acting,
            batch.obs[low:high],
            batch.critic_obs[low:high],
            batch.mask[low:high] if masked else batch.mask,
            owner[low:high],
            first[low:high],
            batch.act[low:high],
            batch.logp[low:high],
            track.value[time],
        )
        decided = cycles()
        step_envs(step, data, env, batch.act[low:high], track.reward[time])
        stepped = cycles()
        cut = record_step(tally, assignment, track, time, env.term, env.trunc, learners, gamma)
        for place in range(fresh.shape[0]):
            if track.ended[time, place]:
                fresh[place] = 1
        if cut:
            _bootstrap(acting, env, track, time)
        clock[0] += decided - begun
        clock[1] += stepped - decided
    tally.decisions[0] += steps * slots


@njit(cache=True, nogil=True, error_model="numpy", fastmath=True)
def _bootstrap(acting: ActingMemory, env: VectorArrays, track: Track, time: int) -> None:
    """Compute the value of the final observation of every truncated agent."""
    cut = np.empty(env.trunc.shape[0], np.int64)
    rows = find_cut(env.term, env.trunc, cut)
    places, values = cut[:rows], np.empty(rows, np.float32)
    value_with_memory(acting, env.fin[places], np.empty((rows, 0), np.float32), places, values)
    for row in range(rows):
        track.bootstrap[time, places[row]] = values[row]
