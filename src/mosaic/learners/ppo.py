"""PPO for any number of agents: collect a rollout, estimate advantages, learn, average, look after the league.

A2C is the special case of one epoch without clipping. What differs between envs and engines lies behind `Lane`; the
mathematics in gae.py and fused_update.py (or torch_loss.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.seeding import child_seed
from mosaic.learners.lane import Lane, Rates
from mosaic.learners.league import CENTRE, League, Snapshot
from mosaic.learners.normalise import EPSILON, RunningMoments
from mosaic.learners.plan import Plan
from mosaic.learners.ppo_options import PpoOptions, Schedule
from mosaic.learners.tally import WINDOW

_FLOOR = 0.02  # of a linear schedule, so that the last iterations still learn


@dataclass(frozen=True, slots=True)
class Progress:
    """How training goes, over the last episodes."""

    env_steps: int
    agent_steps: int
    episodes: int
    returns: tuple[NDArray[np.float32], ...]  # of each policy's last episodes
    lengths: NDArray[np.int64]
    losses: tuple[dict[str, float], ...]  # of each policy in the last iteration

    @property
    def return_mean(self) -> float | None:
        """Of an agent that learns; None before the first episode has ended."""
        seen = np.concatenate(self.returns)
        return float(seen.mean()) if seen.size else None


class PpoLearner:
    """Advances by whole iterations. Lanes work side by side, each with its own envs, and meet after every iteration."""

    def __init__(
        self, lanes: Sequence[Lane], plan: Plan, options: PpoOptions, seed: int, total_env_steps: int | None = None
    ) -> None:
        self.lanes, self.plan, self.options = lanes, plan, options
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
        self.league = League(options.league_size, options.league_sampling, _ages(options)) if plan.self_play else None
        self._opponents: list[Snapshot] = []
        self._snapshot_at = 0
        self._threads = ThreadPoolExecutor(len(lanes), "lane") if len(lanes) > 1 else None

    @property
    def env_steps(self) -> int:
        return self.env_steps_before + sum(lane.env_steps for lane in self.lanes)

    def iterate(self) -> None:
        """One rollout of every env and what is learned from it."""
        if self.league is not None and self.env_steps >= self._snapshot_at:
            self.snapshot()
        rates = self._rates()

        def work(lane: Lane) -> list[dict[str, float]]:
            lane.collect()
            return lane.learn(rates, self._reward_scale)

        losses = self._everywhere(work)
        self._losses = tuple(_mean_losses([of_lane[k] for of_lane in losses]) for k in range(len(self.plan.names)))
        self._average()
        self._normalise()
        if self.league is not None:
            scores = sum(lane.tally.scores for lane in self.lanes)
            assert isinstance(scores, np.ndarray)
            self.league.record(self._opponents, scores)
            for lane in self.lanes:
                lane.tally.scores[:] = 0

    def _everywhere(self, work: Callable[[Lane], Any]) -> list[Any]:
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
        """Lanes that learned from different experience go on from the mean of what they learned."""
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
        """What was seen in this iteration changes how the next one is seen, never the rows already stored."""
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
        """Freezes the learner as it is and draws anew who sits in the league's places."""
        assert self.league is not None
        normalised = self.options.normalize_observations
        empty = np.zeros(0, np.float32)
        shift, scale = (self._scalers[0].shift, self._scalers[0].scale) if normalised else (empty, empty)
        self.league.add(self.env_steps, self.lanes[0].weights(0), shift, scale)
        every = self.options.snapshot_every_steps or max(1, (self.total_env_steps or 2_000_000) // 20)
        self._snapshot_at = self.env_steps + min([every, *self.league.ages])
        self._draw_opponents()

    def _draw_opponents(self) -> None:
        assert self.league is not None
        self._opponents = self.league.draw(self.options.league_places, self.env_steps, self._generator)
        for lane in self.lanes:
            lane.set_opponents(self._opponents)
            lane.seats.slip[:] = self.options.opponent_slip

    def weights(self, policy: int) -> NDArray[np.float32]:
        return self.lanes[0].weights(policy)

    def scaler(self, policy: int) -> RunningMoments | None:
        return self._scalers[policy] if self.options.normalize_observations else None

    def progress(self) -> Progress:
        tallies = [lane.tally for lane in self.lanes]
        policies = range(len(self.plan.names))
        return Progress(
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

    def rating(self) -> float | None:
        return self.league.rating if self.league else None

    def training_state(self) -> dict[str, NDArray[Any]]:
        """All that a new attempt needs besides the policies' own weights."""
        state: dict[str, NDArray[Any]] = {}
        for policy, name in enumerate(self.plan.names):
            own = self.lanes[0].training_state(policy)
            state |= {f"{name}/{key}": value for key, value in own.items()}
            state |= self._scalers[policy].to_arrays(f"{name}/seen")
            state |= self._spreads[policy].to_arrays(f"{name}/spread")
        if self.league is not None:
            state |= self.league.to_arrays()
            state["league.snapshot_at"] = np.array([self._snapshot_at], np.int64)
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
            self._draw_opponents()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.shutdown()
        for lane in self.lanes:
            lane.close()


def _ages(options: PpoOptions) -> tuple[int, ...]:
    """The numbers of `self@-N` among the opponents."""
    return tuple(int(text.removeprefix("self@-")) for text in options.opponents if text.startswith("self@-"))


def _factor(schedule: Schedule, left: float) -> float:
    return 1.0 if schedule == "constant" else max(_FLOOR, left)


def _mean(arrays: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = np.stack(arrays).mean(axis=0, dtype=np.float32)
    return mean


def _mean_losses(losses: Sequence[dict[str, float]]) -> dict[str, float]:
    learned = [loss for loss in losses if loss]
    return {name: float(np.mean([loss[name] for loss in learned])) for name in (learned[0] if learned else ())}


__all__ = ["CENTRE", "PpoLearner", "Progress"]
