"""DAgger: rounds of play in which an expert labels states that the learner visits, then passes over all labels.

An expert that is a policy acts itself in a share of the first rounds' steps (`beta`), which decays to 0. The learner
plays its most probable action. What was labelled is in the checkpoint, and episodes depend on the seed and their number
alone, so that a run continues where it was.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import WORKER_PREFIX, LearnerProgress
from mosaic.learners.bc.clones import Clone, CloneLearner, LabelledRows
from mosaic.learners.bc.labels import LabelledEpisode, LabelSource
from mosaic.learners.bc.options import DaggerOptions
from mosaic.learners.ppo.algorithm import schedule_factor
from mosaic.learners.rollout.arrays import WINDOW
from mosaic.models.engine import Bytes, Floats, Ints, StateArrays


class _NewRows(NamedTuple):
    """Labelled rows as a checkpoint holds them."""

    obs: Floats
    mask: Bytes  # without rows where everything is legal
    act: Floats
    ret: Floats
    trajectory: Ints
    first: Bytes
    weight: Floats  # 0: not a label
    held_out: NDArray[np.bool_]


class DaggerLearner(CloneLearner):
    """Learner whose iterations are rounds: play, label, learn."""

    def __init__(
        self,
        vector: VectorEnv,
        plan: TrainingPlan,
        clones: Sequence[Clone],
        options: DaggerOptions,
        seed: int,
        rollouts: LabelSource,
        total_env_steps: int | None = None,
    ) -> None:
        """`clones` may hold recorded rows already, from which the first round learns too."""
        super().__init__(vector, plan, clones, seed)
        self._options, self._rollouts, self._total = options, rollouts, total_env_steps
        self._steps = self._decisions = self._episodes = 0  # of this attempt
        self._round = self._round_steps = 0
        self._share = [0, 0]  # decisions of this round, and those that the expert made
        self._returns: list[deque[float]] = [deque(maxlen=WINDOW) for _ in clones]
        self._lengths: deque[int] = deque(maxlen=WINDOW)
        self._pending: list[list[_NewRows]] = [[] for _ in clones]  # labelled since the last pass
        self._callback: Callable[[], bool] = lambda: False

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + self._steps

    def watch(self, callback: Callable[[], bool]) -> None:
        self._callback = callback

    def iterate(self) -> None:
        """Play one round and learn from all labels so far; the next call continues a round that was interrupted."""
        if self._play():
            started = perf_counter()
            for policy, clone in enumerate(self.clones):
                if self.plan.trained[policy] and len(clone.data.learned):
                    self._learn(policy, clone)
            self._round, self._round_steps, self._share = self._round + 1, 0, [0, 0]
            self._times.add(learning_s=perf_counter() - started)

    def _play(self) -> bool:
        """Play and label until the round is complete; return whether it is."""
        options = self._options
        beta = options.beta
        if options.beta_rounds:
            beta *= max(0.0, 1.0 - self._round / options.beta_rounds)
        while self._round_steps < options.rollout_steps and (self._total is None or self.env_steps < self._total):
            started, number = perf_counter(), self.before.episodes + self._episodes
            seed = child_seed(self._seed, "episode", number)
            played = self._rollouts.play(number, seed, beta, self._decide, self._callback)
            self._times.add(env_s=perf_counter() - started)
            if played is None:
                self._merge()
                return False
            self._add(played)
            if not self._rollouts.more(number + 1):
                break
        self._merge()
        for losses in self._losses:
            losses["expert_share"] = self._share[1] / max(1, self._share[0])
        return True

    def _decide(self, agent: AgentID, seen: Floats, mask: Bytes, first: bool) -> Floats:
        slot = self.vector.shape.agents.index(agent)
        engine = self.clones[self.plan.policy_of[slot]].engine
        act = np.zeros((1, engine.architecture.head.parts), np.float32)
        legal = mask[None] if len(mask) else np.zeros((0, engine.architecture.head.width), np.uint8)
        engine.greedy(seen[None], legal, np.array([slot]), np.array([first], np.uint8), act)
        own: Floats = act[0]
        return own

    def _add(self, played: LabelledEpisode) -> None:
        """Add an episode to the labels and to the statistics."""
        held_out = child_seed(self._seed, "held_out", played.number) % 10_000 < 10_000 * self._options.held_out
        for agent, steps in played.parts:
            policy = self.plan.policy_of[self.vector.shape.agents.index(agent)]
            if steps.weight.any():
                number = int(self.clones[policy].data.trajectory.max(initial=-1)) + 1 + len(self._pending[policy])
                which, out = np.full(len(steps), number), np.full(len(steps), held_out)
                ret = steps.returns(self._options.gamma)
                self._pending[policy].append(
                    _NewRows(steps.obs, steps.mask, steps.act, ret, which, steps.first, steps.weight, out)
                )
            self._returns[policy].append(float(steps.reward.sum()))
            self._decisions += len(steps)
            self._share[0] += len(steps)
        self._share[1] += played.expert_steps
        self._steps += played.env_steps
        self._round_steps += played.env_steps
        self._episodes += 1
        self._lengths.append(played.env_steps)

    def _merge(self) -> None:
        for clone, pending in zip(self.clones, self._pending, strict=True):
            if pending:
                clone.data = _extended(clone.data, _NewRows(*map(np.concatenate, zip(*pending, strict=True))))
                pending.clear()

    def _learn(self, policy: int, clone: Clone) -> None:
        options = self._options
        left = 1.0 if not self._total else max(0.0, 1.0 - self.env_steps / self._total)
        rate = options.learning_rate * schedule_factor(options.learning_rate_schedule, left)
        for number in range(options.n_epochs):
            seed = child_seed(self._seed, "shuffle", policy, self._round, number)
            order = clone.order(np.random.default_rng(seed))
            self._losses[policy] |= clone.learn(order, rate, seed)
        self._losses[policy] |= clone.measure() | {"labels": float(clone.data.labels)}

    def training_state(self) -> StateArrays:
        state = super().training_state()
        counts = [self._round, self._round_steps]
        state[f"{WORKER_PREFIX}round"] = np.array(counts, np.int64)
        for policy, (clone, skip) in enumerate(zip(self.clones, self._recorded, strict=True)):
            data = clone.data
            held_out = np.isin(np.arange(len(data.trajectory)), data.held_out)
            assert isinstance(data.rows.obs, np.ndarray)
            kept = _NewRows(
                data.rows.obs, data.rows.mask, data.rows.act, data.rows.ret, data.trajectory, data.first,
                data.rows.adv, held_out
            )  # fmt: skip
            for name, array in kept._asdict().items():
                if len(array) > skip:
                    state[f"{WORKER_PREFIX}{policy}.{name}"] = array[skip:]
            state[f"{WORKER_PREFIX}{policy}.returns"] = np.array(self._returns[policy], np.float64)
        return state | {f"{WORKER_PREFIX}lengths": np.array(self._lengths, np.int64)}

    def load_training_state(self, weights: Sequence[Floats], state: StateArrays) -> None:
        super().load_training_state(weights, state)
        self._round, self._round_steps = state[f"{WORKER_PREFIX}round"].tolist()
        self._lengths.extend(state[f"{WORKER_PREFIX}lengths"].tolist())
        for policy, clone in enumerate(self.clones):
            self._returns[policy].extend(state[f"{WORKER_PREFIX}{policy}.returns"].tolist())
            prefix = f"{WORKER_PREFIX}{policy}."
            if f"{prefix}act" in state:
                empty = np.zeros((0, clone.engine.architecture.head.width), np.uint8)
                arrays = [state.get(f"{prefix}{name}", empty) for name in _NewRows._fields]
                clone.data = _extended(clone.data, _NewRows(*arrays))

    def close(self) -> None:
        self._rollouts.close()
        super().close()

    def progress(self) -> LearnerProgress:
        return LearnerProgress(
            env_steps=self.env_steps,
            agent_steps=self.before.agent_steps + self._decisions,
            episodes=self.before.episodes + self._episodes,
            returns=tuple(np.array(each, np.float32) for each in self._returns),
            lengths=np.array(self._lengths, np.int64),
            losses=tuple(dict(each) for each in self._losses),
        )


def _extended(data: LabelledRows, new: _NewRows) -> LabelledRows:
    """Return the rows with further ones."""
    rows, count, before = data.rows, len(new.act), len(data.trajectory)
    mask = rows.mask
    if len(new.mask):
        earlier = mask if len(mask) else np.ones((before, new.mask.shape[1]), np.uint8)
        mask = np.concatenate([earlier, new.mask])
    added, zeros = np.arange(before, before + count), np.zeros(count, np.float32)
    assert isinstance(rows.obs, np.ndarray)
    more = rows._replace(
        obs=np.concatenate([rows.obs, new.obs]),
        critic_obs=np.zeros((before + count, 0), np.float32),
        mask=mask,
        act=np.concatenate([rows.act, new.act]),
        logp=np.concatenate([rows.logp, zeros]),
        val=np.concatenate([rows.val, zeros]),
        adv=np.concatenate([rows.adv, new.weight]),
        ret=np.concatenate([rows.ret, new.ret]),
    )
    return replace(
        data,
        rows=more,
        trajectory=np.concatenate([data.trajectory, new.trajectory]),
        first=np.concatenate([data.first, new.first]),
        learned=np.concatenate([data.learned, added[~new.held_out & (new.weight > 0)]]),
        held_out=np.concatenate([data.held_out, added[new.held_out & (new.weight > 0)]]),
    )
