"""Training in a Python env as one of several learners that share a table, each in its own process.

The env is in the learner's process. A learner that is replaced, or resumed, begins a new episode.
"""

from __future__ import annotations

import math

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.seeding import child_seed
from mosaic.learners.tabular.engines.base import COUNTER
from mosaic.learners.tabular.kernels import loops as kernels
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.save_load import Tensors
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.training.rollout import RESEED_AFTER, TabularRollout
from mosaic.learners.tabular.training.twin import SteppedEnv, TwinTraining


class SteppedTraining(TwinTraining):
    """One learner in the env; values, visits and progress are the same as in other kinds of training."""

    def __init__(self, env: SteppedEnv, algorithm: str, options: TabularOptions, seed: int) -> None:
        plain = options.model_copy(update={"exploration": "epsilon_greedy"})
        super().__init__(env, "q_learning", plain, seed)  # for the arrays; this class has its own loop
        self._environment, self._seed = env.environment, seed
        states, actions = env.legal.shape
        self._learner = TabularLearner(states, actions, algorithm, options, seed)
        start = self._learner._engine.snapshot()
        self.values, self.visits = start.values[0], start.visits  # the engine's own memory
        self._rollout: TabularRollout | None = None
        self._left_at = 0  # env steps
        self._told = False

    def advance(self, steps: int, episodes: int = 0) -> None:
        if steps <= 0:
            return
        if self._rollout is None:
            from mosaic.envs.catalog import make_env

            env = make_env(EnvironmentConfig.model_validate_json(self._environment))
            self._rollout = TabularRollout(self._learner, env, self._next_seed, reseed_after=RESEED_AFTER)
        statistics = TrainingStatistics()
        most = max(0, episodes - self.episodes) if episodes else math.inf
        self._count(self._rollout.run(steps, most, statistics), statistics)

    def _next_seed(self) -> int:
        return child_seed(self._seed, "env", self._learner.episodes, self.env_steps)

    def _count(self, steps: int, seen: TrainingStatistics) -> None:
        engine, (counts, sums, *_) = self._learner._engine, self.progress
        if seen.custom_metrics and not self._told:
            print("Numbers in infos of the env are not collected from several processes; --runtime single reports them")
            self._told = True
        counts[[kernels.STEPS, kernels.AGENT_STEPS]] += steps
        counts[kernels.EPISODES] = self._learner.episodes
        counts[kernels.DECISIONS] = engine.snapshot().marks[COUNTER]
        sums[kernels.EPSILON] = engine.epsilon
        sums[kernels.TD_ERRORS] += engine.take_error_sum()
        sums[kernels.UPDATES] += steps
        if seen.total_episodes:
            sums[kernels.RETURNS] += seen.mean_reward * seen.total_episodes
            sums[kernels.ENDED] += seen.total_episodes
            sums[kernels.LENGTHS] += seen.mean_episode_length * seen.total_episodes
            sums[kernels.LEAST] = min(sums[kernels.LEAST], seen.min_reward)
            sums[kernels.MOST] = max(sums[kernels.MOST], seen.max_reward)
        self._left_at = self.env_steps

    def load(self, tensors: Tensors) -> None:
        super().load(tensors)
        if self.env_steps != self._left_at:  # progress of another process was loaded
            engine, counts = self._learner._engine, self.progress.counts
            engine.epsilon = float(self.progress.sums[kernels.EPSILON])
            engine.set_counter(int(counts[kernels.DECISIONS]))
            self._learner.episodes = int(counts[kernels.EPISODES])
            self._rollout, self._left_at = None, self.env_steps
