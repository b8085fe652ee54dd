"""PPO for any number of agents: collect a rollout, estimate advantages, learn, average, update the league.

A2C is the special case of one epoch without clipping. `RolloutWorker` hides the differences between envs and engines;
the mathematics is in gae.py and engines/fused_ppo_update.py (or engines/torch_ppo_update.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.machine import available_cores
from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import WORKER_PREFIX, Counters, LearnerProgress, measure_progress
from mosaic.learners.league import League
from mosaic.learners.normalization import PolicyNormalization, RunningMoments
from mosaic.learners.opponents import NO_OPPONENTS, Opponents
from mosaic.learners.ppo.hardware import usual_snapshot_steps
from mosaic.learners.ppo.options import PpoOptions, Schedule
from mosaic.learners.ppo.self_play import SelfPlay
from mosaic.learners.rollout.arrays import EpisodeTally
from mosaic.learners.rollout.base import PolicyInfos, Rates, RolloutWorker
from mosaic.models.engine import StateArrays

_SHARED_CRITIC = "shared_critic"  # in checkpoints whose policies share one
_FLOOR = 0.02  # of a linear schedule, so that the last iterations still learn


class PpoLearner:
    """Learner that advances in whole iterations.

    Rollout workers (`RolloutWorker`) run in parallel, each with its own envs, and synchronise after every iteration.
    """

    def __init__(
        self,
        workers: Sequence[RolloutWorker],
        plan: TrainingPlan,
        options: PpoOptions,
        seed: int,
        total_env_steps: int | None = None,
        opponents: Opponents = NO_OPPONENTS,
        own: Sequence[PpoOptions] = (),
    ) -> None:
        """`own` are the options of each policy, if they differ."""
        self.workers, self.plan, self.options = workers, plan, options
        self._own = own or (options,) * len(plan.names)
        self.total_env_steps = total_env_steps
        self.before = Counters()
        self.normalization = PolicyNormalization(
            plan,
            workers[0].vector.shape,
            observations=options.normalize_observations,
            rewards=options.normalize_rewards,
        )
        self.self_play: SelfPlay | None = None
        if plan.self_play:
            every = options.snapshot_every_steps or usual_snapshot_steps(total_env_steps)
            self.self_play = SelfPlay(workers, options, opponents, every, child_seed(seed, "league"))
        self._losses: tuple[dict[str, float], ...] = ({},) * len(plan.names)
        self._anchors: dict[int, NDArray[np.float32]] = {}  # weights towards which kl_anchor pulls a policy
        self._enough = False  # ends the rollout early
        self._shares_critic = plan.shares_critic
        cores = available_cores()  # with fewer cores than rollout workers some wait; the result is the same
        self._threads = ThreadPoolExecutor(min(len(workers), cores), "rollout") if len(workers) > 1 else None

    @property
    def vector(self) -> VectorEnv:
        return self.workers[0].vector

    @property
    def tally(self) -> EpisodeTally:
        return self.workers[0].tally

    @property
    def league(self) -> League | None:
        return None if self.self_play is None else self.self_play.league

    @property
    def env_steps(self) -> int:
        return self.before.env_steps + sum(worker.env_steps for worker in self.workers)

    def watch(self, callback: Callable[[], bool]) -> None:
        """Set the callback of the first rollout worker; where it ends its rollout, the others end theirs."""

        def look() -> bool:
            self._enough = callback()
            return self._enough

        self.workers[0].watch(look)
        for worker in self.workers[1:]:
            worker.watch(lambda: self._enough)

    def iterate(self) -> None:
        """Collect one rollout of every env and learn from it."""
        if self.self_play is not None and self.self_play.is_due(self.env_steps):
            self.snapshot()
        rates, self._enough = self.rates(), False

        def work(worker: RolloutWorker) -> list[dict[str, float]]:
            worker.collect()
            return worker.learn(rates, self.normalization.reward_scale)

        mapped = map(work, self.workers) if self._threads is None else self._threads.map(work, self.workers)
        losses = list(mapped)
        self._losses = tuple(_mean_losses([each[k] for each in losses]) for k in range(len(self.plan.names)))
        self._average()
        self._normalize()
        if self.self_play is not None:
            self.self_play.record()

    def rates(self) -> list[Rates]:
        """Return the current values of each policy's schedules."""
        left = self._share_left()
        return [_rates(options, left) for options in self._own]

    def _share_left(self) -> float:
        if not self.total_env_steps:
            return 1.0
        return max(0.0, 1.0 - self.env_steps / self.total_env_steps)

    def _average(self) -> None:
        """Average the weights of rollout workers that learned from different experience."""
        if len(self.workers) == 1:
            return
        copies = [worker.policies for worker in self.workers]
        for policy, trained in enumerate(self.plan.trained):
            if not trained:
                continue
            mean = _mean([policies.weights(policy) for policies in copies])
            states = [policies.training_state(policy) for policies in copies]
            state = {name: _mean([state[name] for state in states]) for name in states[0]}
            for policies in copies:
                policies.load(policy, mean)
                policies.load_training_state(policy, state)

    def _normalize(self) -> None:
        """Update normalization with this iteration's data; it applies to the next one, never to rows already stored."""
        normalization = self.normalization
        if not normalization.active:
            return
        for worker in self.workers:
            normalization.merge(worker.policies.take_moments(), worker.tally.spread)
            worker.tally.spread[:] = 0
        self._load_scalers()
        normalization.rescale_rewards()

    def _load_scalers(self) -> None:
        if self.normalization.normalizes_observations:
            for worker in self.workers:
                for policy, moments in enumerate(self.normalization.observations):
                    worker.policies.set_scaler(policy, moments.shift, moments.scale)

    def snapshot(self) -> None:
        """Freeze the learner's current weights and draw the league's opponents again."""
        assert self.self_play is not None
        self.self_play.snapshot(self.env_steps, self.weights(0), self.scaler(0))

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.workers[0].policies.weights(policy)

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        if self._own[policy].kl_anchor:
            self._set_anchor(policy, flat)
        for worker in self.workers:
            worker.policies.load(policy, flat)
        if seen is not None:
            self.normalization.observations[policy] = seen
            self._load_scalers()

    def _set_anchor(self, policy: int, flat: NDArray[np.float32]) -> None:
        self._anchors[policy] = flat.copy()
        for worker in self.workers:
            worker.policies.set_anchor(policy, flat)

    def load_optimiser(self, policy: int, state: StateArrays) -> None:
        for worker in self.workers:
            worker.policies.load_training_state(policy, state)

    def scaler(self, policy: int) -> RunningMoments | None:
        return self.normalization.observations[policy] if self.normalization.normalizes_observations else None

    def progress(self) -> LearnerProgress:
        return measure_progress(self.env_steps, self.before, [worker.tally for worker in self.workers], self._losses)

    def training_state(self) -> StateArrays:
        """Return all that a new attempt needs besides the policies' weights."""
        state: StateArrays = {}
        for policy, name in enumerate(self.plan.names):
            own = self.workers[0].policies.training_state(policy)
            state |= {f"{name}/{key}": value for key, value in own.items()}
            state |= self.normalization.to_arrays(policy, name)
            if policy in self._anchors:
                state[f"{name}/anchor"] = self._anchors[policy]
        if self._shares_critic:
            state[_SHARED_CRITIC] = np.ones(1, np.float32)
        if self.self_play is not None:
            state |= self.self_play.to_arrays()
        for number, worker in enumerate(self.workers):
            state |= {f"{WORKER_PREFIX}{number}.{key}": value for key, value in worker.env_state().items()}
        return state

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: StateArrays) -> None:
        self._shares_critic = self._shares_critic and _SHARED_CRITIC in state
        if not self._shares_critic:  # older checkpoints have a critic for each policy
            for worker in self.workers:
                worker.keep_own_critics()
        for policy, name in enumerate(self.plan.names):
            self.normalization.load_arrays(policy, name, state)
            if self._own[policy].kl_anchor:
                if f"{name}/anchor" not in state:
                    raise InputError(f"kl_anchor of '{name}': the checkpoint was written without it. Set it to 0.")
                self._set_anchor(policy, state[f"{name}/anchor"])
            for worker in self.workers:
                worker.policies.load(policy, weights[policy])
                worker.policies.load_training_state(policy, _below(f"{name}/", state))
        self._load_scalers()
        self.normalization.rescale_rewards()
        if self.self_play is not None:
            self.self_play.load_arrays(state)
        for number, worker in enumerate(self.workers):
            worker.restore_envs(_below(f"{WORKER_PREFIX}{number}.", state), self.env_steps)
            self.before.agent_steps -= int(worker.tally.decisions[0])  # the restored tally already counts these
            self.before.episodes -= int(worker.tally.finished[-1])

    def take_infos(self) -> PolicyInfos:
        return [each for worker in self.workers for each in worker.take_infos()]

    def split(self) -> tuple[float, float, float]:
        env_s, inference_s, learning_s = zip(*(worker.times.take() for worker in self.workers), strict=True)
        return sum(env_s), sum(inference_s), sum(learning_s)

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for worker in self.workers:
            worker.vector.close()


def _below(prefix: str, state: StateArrays) -> StateArrays:
    return {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}


def _rates(options: PpoOptions, left: float) -> Rates:
    return Rates(
        learning_rate=options.learning_rate * schedule_factor(options.learning_rate_schedule, left),
        clip_range=options.clip_range * schedule_factor(options.clip_range_schedule, left),
        ent_coef=_between(options.ent_coef, options.ent_coef_final, left),
        kl_anchor=_between(options.kl_anchor, options.kl_anchor_final, left),
    )


def _between(start: float, end: float | None, left: float) -> float:
    return start if end is None else end + (start - end) * left


def schedule_factor(schedule: Schedule, left: float) -> float:
    """Return the factor of a rate when this share of the run is left."""
    return 1.0 if schedule == "constant" else max(_FLOOR, left)


def _mean(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = np.stack(arrays).mean(axis=0, dtype=np.float32)
    return mean


def _mean_losses(losses: Sequence[dict[str, float]]) -> dict[str, float]:
    learned = [loss for loss in losses if loss]
    return {name: float(np.mean([loss[name] for loss in learned])) for name in (learned[0] if learned else ())}
