"""Rollout worker for all other cases: Python steps the envs, and policies may differ in engine and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.layout import VectorEnv, VectorShape, step_counts
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.rollout.arrays import record_step
from mosaic.learners.rollout.base import EpisodeInfos, PolicyInfos, Rates, RolloutSettings, Stopwatch
from mosaic.learners.rollout.buffers import NO_POLICY, SequenceBuffer, make_rollout
from mosaic.learners.rollout.compiled import episodes_state
from mosaic.learners.rollout.compiled_inference import join_observations
from mosaic.learners.rollout.engine_policies import EnginePolicies, RandomMoves
from mosaic.learners.rollout.shared_critic import SharedCritic
from mosaic.learners.rollout.update import update_policies
from mosaic.models.engine import LearnSettings, StateArrays
from mosaic.models.packed_rows import RowPacking
from mosaic.models.random import generator_state, load_generator

_SLIPS = "slips"  # in checkpoints: the random moves of frozen opponents


def is_simple(shape: VectorShape, policies: EnginePolicies, settings: RolloutSettings) -> bool:
    """Return whether all rows go to one engine as they are."""
    more = shape.turn_based or policies.critic_width or policies.normalizes or settings.guests
    return len(policies.engines) == 1 and not more


class PythonRollouts:
    """Rollout worker that decides step by step with one engine per policy."""

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        policies: EnginePolicies,
        learning: Sequence[LearnSettings],
        settings: RolloutSettings,
        packing: RowPacking | None = None,
    ) -> None:
        """`learning` is of each policy."""
        self.vector, self.plan, self.policies = vector, plan, policies
        shape, seed = vector.shape, settings.seed
        if policies.normalizes:  # normalised images are not bytes any more
            packing = None
        self.buffer = SequenceBuffer(
            make_rollout(shape, settings.n_steps, policies.critic_width, packing), shape, settings.n_steps
        )
        self.assignment, self.tally = settings.make_assignment(plan, shape), settings.make_tally(plan, shape)
        self._settings = settings
        if self._settings.episodes is not None:
            self._settings.episodes.begin(self.assignment.policy_of, range(shape.envs))
        self.times = Stopwatch()
        self._infos = EpisodeInfos(vector, len(plan.names))
        self.env_steps = 0
        self._learning = learning
        self._random_moves = RandomMoves(shape, self.assignment, policies.learners, child_seed(seed, "slips"))
        self.shared_critic: SharedCritic | None = None
        if plan.shares_critic:
            learners = np.flatnonzero(plan.trained).tolist()
            places = {policy: policies.engines[policy].critic_place() for policy in learners}
            self.shared_critic = SharedCritic(policies, places)
        self._callback: Callable[[], bool] | None = None
        self._simple = is_simple(shape, policies, settings)
        vector.reset(child_seed(seed, "envs"))

    def watch(self, callback: Callable[[], bool]) -> None:
        self._callback = callback

    def collect(self) -> None:
        """Step the envs `n_steps` times, or until the callback ends the rollout."""
        vector, buffer, counts = self.vector, self.buffer, step_counts(self.vector)
        self.policies.begin_rollout()
        for time in range(buffer.steps):
            started = perf_counter()
            rows = self._decide(time)
            decided = perf_counter()
            vector.step(buffer.rows.act[rows])
            stepped = perf_counter()
            self._record(time, counts)
            enough = self._callback is not None and self._callback()
            self.times.add(stepped - decided, decided - started + perf_counter() - stepped)
            if enough:
                buffer.leave_out(time + 1)
                break
        self._value_last()
        buffer.rows.val[:] = buffer.track.value[: buffer.steps].ravel()

    def _decide(self, time: int) -> slice:
        """Write every active slot's decision into the buffer; return the rows of this step."""
        vector, buffer = self.vector, self.buffer
        track, batch = buffer.track, buffer.rows
        rows = buffer.begin_step(time, vector)
        if len(batch.mask):
            batch.mask[rows] = vector.mask
        if self._simple and vector.active.all():
            batch.obs[rows] = vector.obs
            critic = batch.critic_obs[rows]
            mask, owner, first = batch.mask[rows], buffer.owner[rows], buffer.first[rows]
            act, logp = batch.act[rows], batch.logp[rows]
            self.policies.engines[0].act(vector.obs, critic, mask, owner, first, act, logp, track.value[time])
            track.policy_of[time] = 0
            self.tally.decisions[0] += vector.shape.slots
            buffer.end_decisions(rows)
            return rows
        track.policy_of[time] = policy_of = self._deciding(buffer.owner[rows])
        seen = self.policies.normalize(vector.obs, policy_of, count=True)
        batch.obs[rows] = seen
        joined = self._joined(seen)
        if joined.shape[1]:
            batch.critic_obs[rows] = joined
        for policy in np.unique(policy_of[policy_of >= 0]):
            self._decide_for(int(policy), np.flatnonzero(policy_of == policy), time, seen, joined)
        acting = vector.active > 0
        self.tally.decisions[0] += int(acting.sum())
        buffer.end_decisions(rows, acting)
        return rows

    def _deciding(self, owner: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the policy that decides for each slot now; NO_POLICY where it is inactive."""
        return np.where(self.vector.active > 0, self.assignment.policy_of.ravel()[owner], NO_POLICY)

    def _decide_for(
        self,
        policy: int,
        slots: NDArray[np.int64],
        time: int,
        seen: NDArray[np.float32],
        joined: NDArray[np.float32],
    ) -> None:
        policies, batch = self.policies, self.buffer.rows
        rows = time * self.vector.shape.slots + slots
        count = len(rows)
        act = np.zeros((count, batch.act.shape[1]), np.float32)
        logp, value = np.zeros(count, np.float32), np.zeros(count, np.float32)
        obs, mask = policies.observations(policy, seen, slots), policies.masks(policy, batch.mask, rows)
        owner, first = self.buffer.owner[rows], self.buffer.first[rows]
        policies.engines[policy].act(obs, joined[slots], mask, owner, first, act, logp, value)
        self._random_moves.replace(policy, mask, act)
        batch.act[rows], batch.logp[rows] = act, logp
        self.buffer.track.value[time, slots] = value

    def _record(self, time: int, counts: NDArray[np.int64] | None) -> None:
        """Record env steps (`counts` as in `step_counts`), rewards and ends after a step of the vector env."""
        vector, track = self.vector, self.buffer.track
        if counts is None:
            self.env_steps += vector.shape.envs
        else:
            self.env_steps += int(counts.sum())
            self.tally.length[:] += counts - 1  # record_step adds one
        track.reward[time] = vector.rew
        self._infos.add(self.assignment.policy_of)
        played_by = self.assignment.policy_of.copy() if vector.trunc.any() else None
        gamma, learners = np.float32(self._learning[0].gamma), self.policies.learners
        cut = record_step(self.tally, self.assignment, track, time, vector.term, vector.trunc, learners, gamma)
        self.buffer.end_episodes(time)
        if cut and played_by is not None:
            self._bootstrap(time, played_by)
        if self._settings.episodes is not None:  # the length of an episode that has just ended is 0
            self._settings.episodes.begin(self.assignment.policy_of, np.flatnonzero(self.tally.length == 0).tolist())

    def _bootstrap(self, time: int, played_by: NDArray[np.int64]) -> None:
        """Compute the value of the final observation of every truncated agent."""
        vector = self.vector
        policy_of = played_by.ravel()
        cut = (vector.trunc > 0) & (vector.term == 0)
        final = self.policies.normalize(vector.fin, policy_of)
        if self.policies.critic_width:
            final = np.where(vector.trunc[:, None] > 0, final, np.float32(0))  # dead agents have no final observation
        joined = self._joined(final)
        for policy in range(self.policies.learners):
            rows = np.flatnonzero(cut & (policy_of == policy))
            if len(rows):
                self.buffer.track.bootstrap[time, rows] = self._values(policy, final, joined, rows, rows)

    def _joined(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the rows of a centralised critic; without columns where there is none."""
        joined = np.zeros((len(obs), self.policies.critic_width), np.float32)
        if joined.shape[1]:
            join_observations(obs, len(self.vector.shape.agents), joined)
        return joined

    def _values(
        self,
        policy: int,
        obs: NDArray[np.float32],
        joined: NDArray[np.float32],
        rows: NDArray[np.int64],
        owner: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        seen = self.policies.observations(policy, obs, rows)
        return self.policies.engines[policy].values(seen, joined[rows], owner)

    def _value_last(self) -> None:
        """Compute the values of the observations after the last step."""
        vector, track, last = self.vector, self.buffer.track, self.buffer.steps
        track.who[last], track.active[last] = vector.who, vector.active
        owner = self.buffer.owners(vector)
        policy_of = self._deciding(owner)
        seen = self.policies.normalize(vector.obs, policy_of)
        joined = self._joined(seen)
        for policy in range(self.policies.learners):
            rows = np.flatnonzero(policy_of == policy)
            if len(rows):
                track.value[last, rows] = self._values(policy, seen, joined, rows, owner[rows])

    def learn(self, rates: Sequence[Rates], reward_scale: NDArray[np.float32]) -> list[dict[str, float]]:
        started = perf_counter()
        losses = update_policies(
            self.buffer, self.policies, self.plan, self._learning, rates, reward_scale, self.shared_critic
        )
        self.times.add(learning_s=perf_counter() - started)
        return losses

    def keep_own_critics(self) -> None:
        self.shared_critic = None

    def take_infos(self) -> PolicyInfos:
        return self._infos.take()

    def _episodes_state(self) -> StateArrays:
        """Return arrays of compiled envs and their episodes; nothing for other envs."""
        if not isinstance(self.vector, CompiledVector) or self._settings.episodes is not None:
            return {}
        state = episodes_state(self.vector, self.assignment, self.tally, bound=bool(self._settings.bound))
        return state | {"fresh": self.buffer.fresh}

    def env_state(self) -> StateArrays:
        """Return what the next rollout starts with; nothing for Python envs, which cannot be restored."""
        episodes = self._episodes_state()
        if not episodes:
            return {}
        chance = {_SLIPS: generator_state(self._random_moves.generator)}
        return {name: array.copy() for name, array in episodes.items()} | chance | self.policies.acting_state()

    def restore_envs(self, state: StateArrays, env_steps: int) -> None:
        """Continue the episodes of a state; without one, begin new ones."""
        episodes = self._episodes_state()
        if episodes and _SLIPS in state:
            for name, array in episodes.items():
                array[:] = state[name]
            load_generator(self._random_moves.generator, state[_SLIPS])
            self.policies.load_acting_state(state)
            return
        if self._settings.episodes is not None:
            self._settings.episodes.begin(self.assignment.policy_of, range(self.vector.shape.envs))
        self.vector.reset(child_seed(self._settings.seed, "envs", env_steps))
