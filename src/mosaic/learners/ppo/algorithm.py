"""PPO for any number of agents: collect a rollout, estimate advantages, learn, average, update the league.

A2C is the special case of one epoch without clipping. `RolloutWorker` hides the differences between envs and engines;
the mathematics is in gae.py and engines/fused_ppo_update.py (or engines/torch_ppo_loss.py).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.base import LearnerProgress
from mosaic.learners.league import League, Rival, Snapshot, Stranger, load_generator, to_array
from mosaic.learners.normalization import EPSILON, RunningMoments
from mosaic.learners.opponents import NOBODY_NAMED, Opponents
from mosaic.learners.ppo.hardware import usual_snapshot_steps
from mosaic.learners.ppo.options import PpoOptions, Schedule
from mosaic.learners.rollout.arrays import WINDOW, EpisodeTally
from mosaic.learners.rollout.base import Rates, RolloutWorker

_FLOOR = 0.02  # of a linear schedule, so that the last iterations still learn


class PpoLearner:
    """Learner that advances in whole iterations.

    Rollout workers (`RolloutWorker`) run in parallel, each with its own envs, and synchronise after every iteration.
    """

    def __init__(
        self,
        lanes: Sequence[RolloutWorker],
        plan: TrainingPlan,
        options: PpoOptions,
        seed: int,
        total_env_steps: int | None = None,
        opponents: Opponents = NOBODY_NAMED,
    ) -> None:
        self.lanes, self.plan, self.options = lanes, plan, options
        self._named = opponents
        self.total_env_steps = total_env_steps
        self.env_steps_before = 0  # of earlier attempts
        self.agent_steps_before = 0
        self.episodes_before = 0
        shape = lanes[0].vector.shape
        self.shape = shape
        policies = len(plan.names)
        self._scalers = [RunningMoments.of_width(shape.width) for _ in range(policies)]
        self._spreads = [RunningMoments.of_width(1) for _ in range(policies)]
        self._reward_scale = np.ones(len(shape.agents), np.float32)
        self._losses: tuple[dict[str, float], ...] = ({},) * policies
        self._generator = np.random.default_rng(child_seed(seed, "league"))
        self.league: League | None = None
        if plan.self_play:
            strangers = tuple(Stranger(name) for name in opponents.strangers)
            self.league = League(options.league_size, options.league_sampling, opponents.ages, strangers=strangers)
        self._opponents: list[Snapshot] = []
        self._snapshot_at = 0
        self._enough = False  # ends the rollout early
        cores = len(os.sched_getaffinity(0))  # with fewer cores than rollout workers some wait; the result is the same
        self._threads = ThreadPoolExecutor(min(len(lanes), cores), "lane") if len(lanes) > 1 else None

    @property
    def vector(self) -> VectorEnv:
        return self.lanes[0].vector

    @property
    def tally(self) -> EpisodeTally:
        return self.lanes[0].tally

    def watch(self, glance: Callable[[], bool]) -> None:
        """Set the callback of the first rollout worker; where it ends its rollout, the others end theirs."""

        def look() -> bool:
            self._enough = glance()
            return self._enough

        self.lanes[0].watch(look)
        for lane in self.lanes[1:]:
            lane.watch(lambda: self._enough)

    @property
    def env_steps(self) -> int:
        return self.env_steps_before + sum(lane.env_steps for lane in self.lanes)

    def iterate(self) -> None:
        """Collect one rollout of every env and learn from it."""
        if self.league is not None and self.env_steps >= self._snapshot_at:
            self.snapshot()
        rates, self._enough = self._rates(), False

        def work(lane: RolloutWorker) -> list[dict[str, float]]:
            lane.collect()
            return lane.learn(rates, self._reward_scale)

        losses = self._everywhere(work)
        self._losses = tuple(_mean_losses([of_lane[k] for of_lane in losses]) for k in range(len(self.plan.names)))
        self._average()
        self._normalise()
        if self.league is not None:
            scores = sum(lane.tally.scores for lane in self.lanes)
            assert isinstance(scores, np.ndarray)
            guests = len(scores) - len(self._named.foreign)  # unfilled places lie in between
            self.league.record(self._rivals(), np.concatenate([scores[: len(self._opponents)], scores[guests:]]))
            for lane in self.lanes:
                lane.tally.scores[:] = 0

    def _everywhere(self, work: Callable[[RolloutWorker], Any]) -> list[Any]:
        if self._threads is None:
            return [work(lane) for lane in self.lanes]
        return list(self._threads.map(work, self.lanes))

    def _rates(self) -> Rates:
        options, left = self.options, self._share_left()
        final = options.ent_coef if options.ent_coef_final is None else options.ent_coef_final
        return Rates(
            learning_rate=options.learning_rate * _factor(options.learning_rate_schedule, left),
            clip_range=options.clip_range * _factor(options.clip_range_schedule, left),
            ent_coef=final + (options.ent_coef - final) * left,
        )

    def _share_left(self) -> float:
        if not self.total_env_steps:
            return 1.0
        return max(0.0, 1.0 - self.env_steps / self.total_env_steps)

    def _average(self) -> None:
        """Average the weights of rollout workers that learned from different experience."""
        if len(self.lanes) == 1:
            return
        for policy, trained in enumerate(self.plan.trained):
            if not trained:
                continue
            mean = _mean([lane.weights(policy) for lane in self.lanes])
            states = [lane.training_state(policy) for lane in self.lanes]
            state = {name: _mean([state[name] for state in states]) for name in states[0]}
            for lane in self.lanes:
                lane.load(policy, mean)
                lane.load_training_state(policy, state)

    def _normalise(self) -> None:
        """Update normalisation with this iteration's data; it applies to the next one, never to rows already stored."""
        if not (self.options.normalize_observations or self.options.normalize_rewards):
            return
        for moments in [lane.take_moments() for lane in self.lanes]:
            for policy in range(len(self.plan.names)):
                if self.options.normalize_observations:
                    total, squares = moments.seen[policy]
                    self._scalers[policy].merge(total, squares, float(moments.count[policy]))
            for agent, policy in enumerate(self.plan.policy_of):
                count, total, squares = moments.spread[agent]
                self._spreads[policy].merge(np.array([total]), np.array([squares]), float(count))
        if self.options.normalize_observations:
            self._show_scalers()
        if self.options.normalize_rewards:
            self._reward_scale[:] = [
                1.0 / np.sqrt(self._spreads[policy].var[0] + EPSILON) for policy in self.plan.policy_of
            ]

    def _show_scalers(self) -> None:
        for lane in self.lanes:
            for policy, scaler in enumerate(self._scalers):
                lane.set_scaler(policy, scaler.shift, scaler.scale)

    def snapshot(self) -> None:
        """Freeze the learner's current weights and draw the league's opponents again."""
        assert self.league is not None
        normalised = self.options.normalize_observations
        empty = np.zeros(0, np.float32)
        shift, scale = (self._scalers[0].shift, self._scalers[0].scale) if normalised else (empty, empty)
        self.league.add(self.env_steps, self.lanes[0].weights(0), shift, scale)
        every = self.options.snapshot_every_steps or usual_snapshot_steps(self.total_env_steps)
        self._snapshot_at = self.env_steps + min([every, *self.league.ages])
        self._draw_opponents()

    def _draw_opponents(self) -> None:
        assert self.league is not None
        named, now = self._named, self.env_steps
        if named.strangers or named.ages:
            seated = [self.league.aged(age, now) for age in named.ages]
            self._seat(seated + self.league.snapshots[: named.random])  # a random player's weights do not matter
        else:
            self._seat(self.league.draw(self.options.league_places, now, self._generator))

    def _seat(self, snapshots: list[Snapshot]) -> None:
        self._opponents = snapshots
        for lane in self.lanes:
            lane.set_opponents(snapshots)
            lane.seats.slip[:] = self.options.opponent_slip
            if self._named.random:
                lane.seats.slip[len(self._named.ages)] = 1

    def _rivals(self) -> list[Rival]:
        """Return opponents in the order in which scores are recorded: frozen places, then guests."""
        assert self.league is not None
        snapshots = self._opponents[: -1 if self._named.random else None]
        return [*snapshots, *self.league.strangers]

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.lanes[0].weights(policy)

    def load(self, policy: int, flat: NDArray[np.float32], seen: RunningMoments | None = None) -> None:
        for lane in self.lanes:
            lane.load(policy, flat)
        if seen is not None:
            self._scalers[policy] = seen
            self._show_scalers()

    def load_optimiser(self, policy: int, state: dict[str, NDArray[Any]]) -> None:
        for lane in self.lanes:
            lane.load_training_state(policy, state)

    def scaler(self, policy: int) -> RunningMoments | None:
        return self._scalers[policy] if self.options.normalize_observations else None

    def progress(self) -> LearnerProgress:
        tallies = [lane.tally for lane in self.lanes]
        policies = range(len(self.plan.names))
        return LearnerProgress(
            env_steps=self.env_steps,
            agent_steps=self.agent_steps_before + sum(int(tally.decisions[0]) for tally in tallies),
            episodes=self.episodes_before + sum(int(tally.finished[-1]) for tally in tallies),
            returns=tuple(
                np.concatenate([tally.recent[k, : min(WINDOW, int(tally.finished[k]))] for tally in tallies])
                for k in policies
            ),
            lengths=np.concatenate([t.recent_length[: min(WINDOW, int(t.finished[-1]))] for t in tallies]),
            losses=self._losses,
        )

    def training_state(self) -> dict[str, NDArray[Any]]:
        """Return all that a new attempt needs besides the policies' weights."""
        state: dict[str, NDArray[Any]] = {}
        for policy, name in enumerate(self.plan.names):
            own = self.lanes[0].training_state(policy)
            state |= {f"{name}/{key}": value for key, value in own.items()}
            state |= self._scalers[policy].to_arrays(f"{name}/seen")
            state |= self._spreads[policy].to_arrays(f"{name}/spread")
        if self.league is not None:
            state |= self.league.to_arrays()
            state["league.snapshot_at"] = np.array([self._snapshot_at], np.int64)
            places = [k for seated in self._opponents for k, one in enumerate(self.league.snapshots) if one is seated]
            state["league.seated"] = np.array(places, np.int64)
            state["league.chance"] = to_array(self._generator)
        for number, lane in enumerate(self.lanes):
            state |= {f"lane.{number}.{key}": value for key, value in lane.standing().items()}
        return state

    def load_training_state(self, weights: Sequence[NDArray[np.float32]], state: dict[str, NDArray[Any]]) -> None:
        for policy, name in enumerate(self.plan.names):
            prefix = f"{name}/"
            own = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            self._scalers[policy] = RunningMoments.from_arrays("seen", own)
            self._spreads[policy] = RunningMoments.from_arrays("spread", own)
            learned = {key: value for key, value in own.items() if not key.startswith(("seen.", "spread."))}
            for lane in self.lanes:
                lane.load(policy, weights[policy])
                lane.load_training_state(policy, learned)
        if self.options.normalize_observations:
            self._show_scalers()
        if self.options.normalize_rewards:
            self._reward_scale[:] = [1.0 / np.sqrt(self._spreads[p].var[0] + EPSILON) for p in self.plan.policy_of]
        if self.league is not None:
            self.league.load_arrays(state)
            self._snapshot_at = int(state["league.snapshot_at"][0])
            self._seat([self.league.snapshots[k] for k in state["league.seated"]])
            load_generator(self._generator, state["league.chance"])
        for number, lane in enumerate(self.lanes):
            prefix = f"lane.{number}."
            standing = {key.removeprefix(prefix): value for key, value in state.items() if key.startswith(prefix)}
            lane.go_on(standing, self.env_steps)
            self.agent_steps_before -= int(lane.tally.decisions[0])  # the restored tally already counts these
            self.episodes_before -= int(lane.tally.finished[-1])

    def split(self) -> tuple[float, float, float]:
        env, inference, learning = (
            sum(seconds) for seconds in zip(*(lane.split() for lane in self.lanes), strict=True)
        )
        return env, inference, learning

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for lane in self.lanes:
            lane.close()


def _factor(schedule: Schedule, left: float) -> float:
    return 1.0 if schedule == "constant" else max(_FLOOR, left)


def _mean(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = np.stack(arrays).mean(axis=0, dtype=np.float32)
    return mean


def _mean_losses(losses: Sequence[dict[str, float]]) -> dict[str, float]:
    learned = [loss for loss in losses if loss]
    return {name: float(np.mean([loss[name] for loss in learned])) for name in (learned[0] if learned else ())}
