"""Rollout worker of external envs: decisions for the programs that ask, and rollouts of what came back.

The log-probability and value of a decision are those of the weights that made it. An episode may span several
rollouts: a decision whose outcome is not known yet belongs to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.encoding import Row
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.external.episodes import Fragment, OpenDecision, RecordedDecision
from mosaic.learners.external.world import ExternalWorld
from mosaic.learners.rollout.base import PolicyInfos, Rates, RolloutSettings, Stopwatch
from mosaic.learners.rollout.buffers import SequenceBuffer, make_rollout
from mosaic.learners.rollout.engine_policies import EnginePolicies
from mosaic.learners.rollout.update import update_policies
from mosaic.models.engine import LearnSettings, StateArrays
from mosaic.models.packed_rows import RowPacking


class ExternalRollouts:
    """Rollout worker without envs of its own: `collect` serves the calls of programs.

    A rollout has as many env steps as one of `num_envs` envs has in `n_steps` steps, from any program.
    """

    def __init__(
        self,
        world: ExternalWorld,
        plan: TrainingPlan,
        policies: EnginePolicies,
        learning: Sequence[LearnSettings],
        settings: RolloutSettings,
        packing: RowPacking | None = None,
    ) -> None:
        self.vector, self.plan, self.policies = world.vector, plan, policies
        shape = self.vector.shape
        self.assignment, self.tally = settings.make_assignment(plan, shape), settings.make_tally(plan, shape)
        self.times = Stopwatch()
        self.env_steps = 0
        self.source = world.source(self._decide, self.tally, self.times)
        self._learning = learning
        self._wanted = settings.n_steps * shape.envs
        self._packing = None if policies.normalizes else packing
        self._in_a_row = replace(shape, envs=1, turn_based=True)  # fragments follow each other in one slot
        self._enough: Callable[[], bool] = lambda: False
        self._buffer = self._fill([])

    def watch(self, callback: Callable[[], bool]) -> None:
        self._enough = callback

    def collect(self) -> None:
        taken = self.source.wait_for(self._wanted, self._enough)
        self.env_steps += taken.env_steps
        self._buffer = self._fill(taken.fragments)

    def learn(self, rates: Sequence[Rates], reward_scale: NDArray[np.float32]) -> list[dict[str, float]]:
        started = perf_counter()
        losses = update_policies(self._buffer, self.policies, self.plan, self._learning, rates, reward_scale)
        self.times.add(learning_s=perf_counter() - started)
        return losses

    def _decide(self, seen: Sequence[OpenDecision]) -> list[RecordedDecision]:
        """Sample a decision for each row."""
        policies, shape, count = self.policies, self.vector.shape, len(seen)
        policy_of = np.array([each.policy for each in seen], np.int64)
        obs = policies.normalize(np.stack([each.obs for each in seen]), policy_of, count=True)
        masks = np.stack([each.mask for each in seen]) if shape.masked else np.zeros((0, 0), np.uint8)
        act, logp, value = _rows(count, shape.parts), np.zeros(count, np.float32), np.zeros(count, np.float32)
        for policy in np.unique(policy_of).tolist():
            rows = np.flatnonzero(policy_of == policy)
            done, chance, worth = _rows(len(rows), shape.parts), *np.zeros((2, len(rows)), np.float32)
            policies.engines[policy].act(
                policies.observations(policy, obs, rows),
                _rows(len(rows), 0),
                policies.masks(policy, masks, rows),
                np.zeros(len(rows), np.int64),
                np.ones(len(rows), np.uint8),
                done,
                chance,
                worth,
            )
            act[rows], logp[rows], value[rows] = done, chance, worth
        return [
            RecordedDecision(each.policy, obs[row], each.mask, act[row], float(logp[row]), float(value[row]))
            for row, each in enumerate(seen)
        ]

    def _fill(self, fragments: Sequence[Fragment]) -> SequenceBuffer:
        """Return the rollout of these fragments, one after the other."""
        shape, steps = self._in_a_row, sum(len(fragment.decisions) for fragment in fragments)
        buffer = SequenceBuffer(make_rollout(shape, steps, 0, self._packing), shape, steps)
        rows, track = buffer.rows, buffer.track
        track.active[steps] = 0
        time = 0
        for fragment, worth in zip(fragments, self._worth_after(fragments), strict=True):
            agent, decisions = fragment.of.agent, fragment.decisions
            end = time + len(decisions)
            rows.obs[time:end] = np.stack([each.obs for each in decisions])
            if shape.masked:
                rows.mask[time:end] = np.stack([each.mask for each in decisions])
            rows.act[time:end] = np.stack([each.act for each in decisions])
            rows.logp[time:end] = [each.logp for each in decisions]
            rows.val[time:end] = [each.value for each in decisions]
            track.who[time:end, 0] = agent
            track.policy_of[time:end, 0] = [each.policy for each in decisions]
            track.reward[time:end, agent] = [each.reward for each in decisions]
            track.ended[end - 1, agent], track.bootstrap[end - 1, agent] = 1, worth
            self._spread(fragment)
            time = end
        track.value[:steps, 0] = rows.val
        return buffer

    def _worth_after(self, fragments: Sequence[Fragment]) -> list[float]:
        """Return the value of what followed each fragment; nothing follows where its agent terminated."""
        worth = [0.0 if each.following is None else each.following.value for each in fragments]
        cut = [(k, each.of.policy, each.of.final) for k, each in enumerate(fragments) if each.of.final is not None]
        if not cut:
            return worth
        policies = self.policies
        policy_of = np.array([policy for _, policy, _ in cut], np.int64)
        obs = policies.normalize(np.stack([final for *_, final in cut]), policy_of)
        for policy in np.unique(policy_of).tolist():
            rows = np.flatnonzero(policy_of == policy)
            seen = policies.observations(policy, obs, rows)
            values = policies.engines[policy].values(seen, _rows(len(rows), 0), np.zeros(len(rows), np.int64))
            for row, value in zip(rows.tolist(), values.tolist(), strict=True):
                worth[cut[row][0]] = value
        return worth

    def _spread(self, fragment: Fragment) -> None:
        """Add discounted returns to the moments by which rewards are normalised."""
        of, gamma, spread = fragment.of, self._learning[0].gamma, self.tally.spread[fragment.of.agent]
        for decision in fragment.decisions:
            of.discounted = of.discounted * gamma + decision.reward
            spread += 1.0, of.discounted, of.discounted**2

    def take_infos(self) -> PolicyInfos:
        return self.source.take_infos()

    def keep_own_critics(self) -> None:
        """Do nothing: policies of external envs have critics of their own."""

    def env_state(self) -> StateArrays:
        """Return nothing: programs keep their envs themselves."""
        return {}

    def restore_envs(self, state: StateArrays, env_steps: int) -> None:
        """Do nothing: programs begin new episodes when they connect again."""


def _rows(count: int, width: int) -> Row:
    return np.zeros((count, width), np.float32)
