"""Rollout worker for all other cases: Python steps the envs, and policies may differ in engine and shape."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.league import Snapshot
from mosaic.learners.opponents import Guest
from mosaic.learners.ppo.gae import advantages, rows_of
from mosaic.learners.rollout.arrays import book, make_agent_slots, make_tally, make_track
from mosaic.learners.rollout.base import Moments, Rates
from mosaic.learners.rollout.buffers import Rollout, make_rollout
from mosaic.learners.rollout.compiled_inference import join_observations
from mosaic.models.architecture import Architecture
from mosaic.models.engine import Engine, LearnSettings, Resumes
from mosaic.models.fused import OBSERVATION_LIMIT
from mosaic.models.packed_rows import PackedRows, RowPacking, Rows

_NOBODY = -1


class Trains(Engine, Resumes, Protocol):
    """Engine whose training can be resumed."""


@dataclass(frozen=True, slots=True)
class Discount:
    gamma: np.float32
    gae_lambda: np.float32


class PythonRollouts:
    """Rollout worker with an engine per policy; `make_engine(policy, seed)` also makes those of frozen places."""

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        architectures: Sequence[Architecture],
        make_engine: Callable[[int, int], Trains],
        settings: LearnSettings,
        discount: Discount,
        n_steps: int,
        seed: int,
        *,
        places: int = 0,
        selfplay_envs: int = 0,
        guests: Sequence[Guest] = (),
        normalise: bool = False,
        packing: RowPacking | None = None,
    ) -> None:
        self.vector, self.plan = vector, plan
        shape = vector.shape
        learners = len(plan.names)
        places = places if plan.self_play else 0
        self._learners, self._steps, self._seed = learners, n_steps, seed
        self._settings, self._discount = settings, discount
        self._engines = [make_engine(policy, child_seed(seed, "engine", policy)) for policy in range(learners)]
        self._engines += [make_engine(0, child_seed(seed, "place", place)) for place in range(places)]
        self._widths = [architecture.observation for architecture in architectures] + [shape.width] * places
        self._masks = [architecture.head.width for architecture in architectures] + [shape.mask_width] * places
        central = max(architecture.critic_observation for architecture in architectures)
        rows = n_steps * shape.slots
        # normalised images are not bytes any more
        self._batch = make_rollout(shape, n_steps, central, None if normalise else packing)
        self._track = make_track(shape, n_steps)
        self._first = np.ones(rows, np.uint8)
        self._owner = np.zeros(rows, np.int64)  # the (env, agent) that made the row's decision
        self.seats = make_agent_slots(
            np.array(plan.policy_of, np.int64),
            shape.envs,
            child_seed(seed, "seats"),
            selfplay_envs,
            places,
            _guest_brains(guests, learners + places, len(shape.agents)),
        )
        self.tally = make_tally(shape, learners, places + len({guest.policy for guest in guests}))
        self._sizes = shape.heads[0].sizes  # of frozen places: all agents of a league have the same actions
        self._fresh = np.ones(shape.rows, np.uint8)  # agents that have not yet decided in this episode
        self._env_of_slot = np.arange(shape.slots) // shape.slots_per_env
        self._known = np.zeros(rows, np.uint8)
        self._idx = np.zeros(rows, np.int64)
        self._no_critic = np.zeros((shape.slots, 0), np.float32)
        self._no_mask = np.zeros((0, shape.mask_width), np.uint8)
        self._normalise = normalise
        self._shift = np.zeros((learners + places, shape.width), np.float32)
        self._scale = np.ones((learners + places, shape.width), np.float32)
        self._count, self._seen = np.zeros(learners), np.zeros((learners, 2, shape.width))
        self._generator = np.random.default_rng(child_seed(seed, "slips"))
        self._seconds = np.zeros(3)
        self._glance: Callable[[], bool] | None = None
        self.env_steps = 0
        self._simple = learners + places == 1 and not shape.turn_based and central == 0 and not normalise and not guests
        vector.reset(child_seed(seed, "envs"))

    def watch(self, glance: Callable[[], bool]) -> None:
        self._glance = glance

    def collect(self) -> None:
        """Step the envs `n_steps` times, or until the callback ends the rollout."""
        for engine in self._engines[: self._learners]:
            engine.begin_rollout()
        for time in range(self._steps):
            started = perf_counter()
            self._decide(time)
            decided = perf_counter()
            slots = self.vector.shape.slots
            self.vector.step(self._batch.act[time * slots : (time + 1) * slots])
            stepped = perf_counter()
            self._book(time)
            self.env_steps += self.vector.shape.envs
            enough = self._glance is not None and self._glance()
            self._seconds[:2] += stepped - decided, decided - started + perf_counter() - stepped
            if enough:
                self._leave_out(time + 1)
                break
        self._look_ahead()
        self._batch.val[:] = self._track.value[: self._steps].ravel()

    def _leave_out(self, first: int) -> None:
        """Mark the rest of the rollout as steps without decisions: the values after it apply at once."""
        track = self._track
        track.active[first : self._steps] = 0
        track.brain[first:] = _NOBODY
        track.reward[first:] = 0
        track.ended[first:] = 0
        self._owner[first * self.vector.shape.slots :] = _NOBODY

    def _decide(self, time: int) -> None:
        """Write every active slot's decision into the batch."""
        vector, track, batch = self.vector, self._track, self._batch
        slots = vector.shape.slots
        low, high = time * slots, (time + 1) * slots
        track.who[time] = vector.who
        track.active[time] = vector.active
        owner = self._owner[low:high]
        np.add(self._env_of_slot * len(vector.shape.agents), vector.who, out=owner)
        first = self._first[low:high]
        first[:] = self._fresh[owner]
        if batch.mask.shape[0]:
            batch.mask[low:high] = vector.mask
        if self._simple and vector.active.all():
            batch.obs[low:high] = vector.obs
            self._engines[0].act(
                vector.obs,
                self._no_critic,
                batch.mask[low:high] if batch.mask.shape[0] else self._no_mask,
                owner,
                first,
                batch.act[low:high],
                batch.logp[low:high],
                track.value[time],
            )
            track.brain[time] = 0
            self.tally.decisions[0] += slots
            self._fresh[owner] = 0
            return
        brain = np.where(vector.active > 0, self.seats.brain[self._env_of_slot, vector.who], _NOBODY)
        track.brain[time] = brain
        shown = self._shown(vector.obs, brain, count=True)
        batch.obs[low:high] = shown
        joined = self._joined(shown)
        if batch.critic_obs.shape[1]:
            batch.critic_obs[low:high] = joined
        for policy in np.unique(brain[brain >= 0]):
            self._decide_for(int(policy), np.flatnonzero(brain == policy), time, shown, joined, owner, first)
        acting = vector.active > 0
        self.tally.decisions[0] += int(acting.sum())
        self._fresh[owner[acting]] = 0

    def _decide_for(
        self,
        policy: int,
        slots: NDArray[np.int64],
        time: int,
        shown: NDArray[np.float32],
        joined: NDArray[np.float32],
        owner: NDArray[np.int64],
        first: NDArray[np.uint8],
    ) -> None:
        batch, engine = self._batch, self._engines[policy]
        rows = time * self.vector.shape.slots + slots
        count = len(rows)
        act = np.zeros((count, batch.act.shape[1]), np.float32)
        logp, value = np.zeros(count, np.float32), np.zeros(count, np.float32)
        obs = np.ascontiguousarray(shown[slots, : self._widths[policy]])
        mask = self._no_mask
        if batch.mask.shape[0]:
            mask = np.ascontiguousarray(batch.mask[rows, : self._masks[policy]])
        engine.act(obs, joined[slots], mask, owner[slots], first[slots], act, logp, value)
        if policy >= self._learners and self.seats.slip[policy - self._learners] > 0:
            self._slip(policy, mask, act)
        batch.act[rows], batch.logp[rows] = act, logp
        self._track.value[time, slots] = value

    def _slip(self, policy: int, mask: NDArray[np.uint8], act: NDArray[np.float32]) -> None:
        """Replace some moves of a frozen opponent by random ones."""
        chance = self.seats.slip[policy - self._learners]
        for row in np.flatnonzero(self._generator.random(len(act)) < chance):
            first = 0
            for part, size in enumerate(self._sizes):
                legal = np.flatnonzero(mask[row, first : first + size]) if len(mask) else size
                act[row, part] = self._generator.choice(legal)
                first += size

    def _shown(self, obs: NDArray[np.float32], brain: NDArray[np.int64], *, count: bool = False) -> NDArray[np.float32]:
        """Return observations as each policy normalises them."""
        if not self._normalise:
            return obs
        if count:
            for policy in range(self._learners):
                rows = obs[brain == policy].astype(np.float64)
                self._count[policy] += len(rows)
                self._seen[policy, 0] += rows.sum(axis=0)
                self._seen[policy, 1] += (rows * rows).sum(axis=0)
        scaled = (obs - self._shift[brain]) * self._scale[brain]
        shown: NDArray[np.float32] = np.clip(scaled, -OBSERVATION_LIMIT, OBSERVATION_LIMIT)
        shown[brain < 0] = 0  # a centralised critic sees zeros for dead agents
        return shown

    def _book(self, time: int) -> None:
        vector, track = self.vector, self._track
        track.reward[time] = vector.rew
        seated = self.seats.brain.copy() if vector.trunc.any() else None
        gamma = self._discount.gamma
        cut = book(self.tally, self.seats, track, time, vector.term, vector.trunc, self._learners, gamma)
        ended = track.ended[time]
        if ended.any():
            self._fresh[ended > 0] = 1
        if cut and seated is not None:
            self._bootstrap(time, seated)

    def _bootstrap(self, time: int, seated: NDArray[np.int64]) -> None:
        """Compute the value of the final observation of every truncated agent."""
        vector = self.vector
        brain = seated.ravel()
        cut = (vector.trunc > 0) & (vector.term == 0)
        final = self._shown(vector.fin, brain)
        if self._batch.critic_obs.shape[1]:
            final = np.where(vector.trunc[:, None] > 0, final, np.float32(0))  # dead agents have no final observation
        joined = self._joined(final)
        for policy in range(self._learners):
            rows = np.flatnonzero(cut & (brain == policy))
            if len(rows):
                self._track.bootstrap[time, rows] = self._values(policy, final, joined, rows, rows)

    def _joined(self, obs: NDArray[np.float32]) -> NDArray[np.float32]:
        width = self._batch.critic_obs.shape[1]
        joined = np.zeros((len(obs), width), np.float32)
        if width:
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
        seen = np.ascontiguousarray(obs[rows, : self._widths[policy]])
        return self._engines[policy].values(seen, joined[rows], owner)

    def _look_ahead(self) -> None:
        """Compute the values of the observations after the last step."""
        vector, track, last = self.vector, self._track, self._steps
        track.who[last], track.active[last] = vector.who, vector.active
        owner = self._env_of_slot * len(vector.shape.agents) + vector.who
        brain = np.where(vector.active > 0, self.seats.brain[self._env_of_slot, vector.who], _NOBODY)
        shown = self._shown(vector.obs, brain)
        joined = self._joined(shown)
        for policy in range(self._learners):
            rows = np.flatnonzero(brain == policy)
            if len(rows):
                track.value[last, rows] = self._values(policy, shown, joined, rows, owner[rows])

    def learn(self, rates: Rates, reward_scale: NDArray[np.float32]) -> list[dict[str, float]]:
        started = perf_counter()
        batch, track, agents = self._batch, self._track, len(self.vector.shape.agents)
        gamma, gae_lambda = self._discount.gamma, self._discount.gae_lambda
        advantages(track, agents, gamma, gae_lambda, reward_scale, batch.adv, batch.ret, self._known)
        settings = replace(self._settings, clip_range=rates.clip_range, ent_coef=rates.ent_coef)
        losses: list[dict[str, float]] = []
        for policy in range(self._learners):
            count = rows_of(track.brain, self._known, policy, self._idx) if self.plan.trained[policy] else 0
            if not count:
                losses.append({})
                continue
            idx = self._idx[:count].copy()
            rows = self._fitting(policy)
            engine = self._engines[policy]
            losses.append(engine.learn(rows, self._owner, self._first, idx, settings, rates.learning_rate))
        self._seconds[2] += perf_counter() - started
        return losses

    def _fitting(self, policy: int) -> Rollout:
        """Return the batch, cut to this policy's observation and mask widths."""
        batch = self._batch
        if self._widths[policy] == batch.obs.shape[1] and self._masks[policy] == max(1, batch.mask.shape[1]):
            return batch
        obs: Rows = batch.obs  # an engine that reads packed rows selects its columns itself
        if not isinstance(obs, PackedRows):
            obs = np.ascontiguousarray(obs[:, : self._widths[policy]])
        mask = np.ascontiguousarray(batch.mask[:, : self._masks[policy]]) if batch.mask.shape[0] else batch.mask
        return batch._replace(obs=obs, mask=mask)

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self._engines[policy].weights()

    def load(self, policy: int, flat: NDArray[np.float32]) -> None:
        self._engines[policy].load(flat)

    def training_state(self, policy: int) -> dict[str, NDArray[np.float32]]:
        return self._engines[policy].training_state()

    def load_training_state(self, policy: int, state: dict[str, NDArray[np.float32]]) -> None:
        self._engines[policy].load_training_state(state)

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        self._shift[policy], self._scale[policy] = shift, scale

    def set_opponents(self, snapshots: Sequence[Snapshot]) -> None:
        for place, snapshot in enumerate(snapshots):
            row = self._learners + place
            if not np.array_equal(self._engines[row].weights(), snapshot.weights):
                self._engines[row].load(snapshot.weights)
                self.seats.rated[(self.seats.brain == row).any(axis=1)] = 0
            if snapshot.shift.size:
                self.set_scaler(row, snapshot.shift, snapshot.scale)
        self.seats.league[2] = len(snapshots)

    def take_moments(self) -> Moments:
        taken = Moments(self._count.copy(), self._seen.copy(), self.tally.spread.copy())
        self._count[:] = 0
        self._seen[:] = 0
        self.tally.spread[:] = 0
        return taken

    def standing(self) -> dict[str, NDArray[Any]]:
        """Return nothing: Python envs cannot be restored."""
        return {}

    def go_on(self, standing: dict[str, NDArray[Any]], env_steps: int) -> None:
        """Continue in new episodes."""
        self.vector.reset(child_seed(self._seed, "envs", env_steps))

    def split(self) -> tuple[float, float, float]:
        env, inference, learning = (float(seconds) for seconds in self._seconds)
        self._seconds[:] = 0
        return env, inference, learning

    def close(self) -> None:
        self.vector.close()


def _guest_brains(guests: Sequence[Guest], first: int, agents: int) -> NDArray[np.int64]:
    """Return the policy of each agent in guests' envs; guest policies are numbered from `first`."""
    brains = np.zeros((len(guests), agents), np.int64)
    for row, guest in zip(brains, guests, strict=True):
        row[:] = first + guest.policy
        row[guest.chair] = 0
    return brains
