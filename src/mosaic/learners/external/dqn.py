"""DQN from external envs: it replays all that programs report, and explores where they ask for actions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

import numpy as np

from mosaic.envs.vector.layout import VectorArrays
from mosaic.learners.agent_roles import TrainingPlan
from mosaic.learners.dqn.algorithm import DqnLearner
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.dqn.replay_buffer import Transitions, store
from mosaic.learners.external.episodes import Fragment, OpenDecision, RecordedDecision
from mosaic.learners.external.world import ExternalWorld
from mosaic.learners.recorded import RecordedSteps
from mosaic.learners.rollout.base import PolicyInfos
from mosaic.learners.rollout.off_policy import CALLS, ENV_STEPS
from mosaic.models.architecture import Architecture
from mosaic.models.packed_rows import RowPacking


class ExternalDqnLearner(DqnLearner):
    """DQN whose decisions come from programs; an iteration is a chunk of env steps that they made."""

    def __init__(
        self,
        world: ExternalWorld,
        plan: TrainingPlan,
        architecture: Architecture,
        options: DqnOptions,
        seed: int,
        total_env_steps: int | None = None,
        packing: RowPacking | None = None,
        recorded: RecordedSteps | None = None,
    ) -> None:
        super().__init__(world.vector, plan, architecture, options, seed, total_env_steps, packing, recorded)
        self._packing, self._most = packing, max(options.batch_size, world.vector.shape.slots)
        self._source = world.source(self._decide, self.tally, self._times)
        self._enough: Callable[[], bool] = lambda: False

    def watch(self, callback: Callable[[], bool]) -> None:
        self._enough = callback

    def iterate(self) -> None:
        """Serve calls until there is a chunk of env steps, store them, and make the updates that are due."""
        if self._pretrain():
            return
        self.engine.set_learning_rate(self.learning_rate)
        wanted = self._chunk
        if self.total_env_steps is not None and self.env_steps < self.total_env_steps:
            wanted = min(wanted, self.total_env_steps - self.env_steps)
        self.engine.stats[:] = 0
        taken = self._source.wait_for(wanted, self._enough)
        began = perf_counter()
        for fragment in taken.fragments:
            store(self.engine.ring, self._transitions(fragment), self._packing)
        for _ in range(taken.env_steps):
            self.engine.steps[CALLS] += 1
            self.engine.steps[ENV_STEPS] += 1
            self.engine.learn()
        self._times.add(learning_s=perf_counter() - began)
        self._tell_losses()

    def take_infos(self) -> PolicyInfos:
        return self._source.take_infos()

    def _decide(self, seen: Sequence[OpenDecision]) -> list[RecordedDecision]:
        """Choose epsilon-greedily for each row."""
        made: list[RecordedDecision] = []
        for start in range(0, len(seen), self._most):
            part = seen[start : start + self._most]
            rows = len(part)
            act = np.zeros((rows, 1), np.float32)
            arrays = VectorArrays(
                obs=np.stack([each.obs for each in part]),
                mask=np.stack([each.mask for each in part]),
                who=np.zeros(rows, np.int64),
                active=np.ones(rows, np.uint8),
                rew=np.zeros(rows, np.float32),
                term=np.zeros(rows, np.uint8),
                trunc=np.zeros(rows, np.uint8),
                fin=np.zeros((rows, 0), np.float32),
            )
            self.engine.decide(arrays, self.epsilon, act)
            made += [RecordedDecision(each.policy, each.obs, each.mask, act[row]) for row, each in enumerate(part)]
        return made

    def _transitions(self, fragment: Fragment) -> Transitions:
        decisions = fragment.decisions
        last = decisions[-1]
        if fragment.following is not None:
            after, legal, follows = fragment.following.obs, fragment.following.mask, 1.0
        elif fragment.of.final is not None:
            after, legal, follows = fragment.of.final, np.ones_like(last.mask), 1.0
        else:
            after, legal, follows = last.obs, last.mask, 0.0
        return Transitions(
            obs=np.stack([each.obs for each in decisions]),
            act=np.array([each.act[0] for each in decisions], np.int64),
            reward=np.array([each.reward for each in decisions], np.float32),
            next_obs=np.stack([*(each.obs for each in decisions[1:]), after]),
            next_mask=np.stack([*(each.mask for each in decisions[1:]), legal]),
            follows=np.array([1.0] * (len(decisions) - 1) + [follows], np.float32),
        )
