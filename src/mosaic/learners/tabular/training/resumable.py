"""Training in a single-agent env that is stepped in Python, and the values of a saved table.

Training can be left and resumed after any step.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

from mosaic.core.seeding import child_seed
from mosaic.envs.codes import space_code
from mosaic.envs.env import Env
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.save_load import read_table
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.training.rollout import RESEED_AFTER, Glance, RolloutPosition, TabularRollout
from mosaic.learners.tabular.training.twin import FILE as TWIN_FILE
from mosaic.learners.tabular.training.twin import TENSORS, Statistics

FILE = "learner.safetensors"
ROLLOUT = "rollout.json"


class PlayedTraining:
    """Learner for the only agent; a resumed run equals an uninterrupted one where seeds reproduce the env."""

    def __init__(self, env: Env, algorithm: str, options: TabularOptions, seed: int) -> None:
        (agent,) = env.possible_agents
        rows, columns = (space_code(spaces[agent]) for spaces in (env.observation_spaces, env.action_spaces))
        self.env, self._seed = env, seed
        self._open(TabularLearner(rows.size, columns.size, algorithm, options, seed))
        self._glance: Glance | None = None

    def _open(self, learner: TabularLearner) -> None:
        self.learner = learner
        self._rollout = TabularRollout(learner, self.env, self._next_seed, reseed_after=RESEED_AFTER)
        self._statistics, self._read_at = TrainingStatistics(), 0

    def _next_seed(self) -> int:
        return child_seed(self._seed, "tabular", "train", self.episodes, self.env_steps)

    def watch(self, glance: Glance) -> None:
        self._glance = glance

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Take this many steps, or stop after `episodes` in all (0: no limit); the next call continues the episode."""
        most = max(0, episodes - self.episodes) if episodes else math.inf
        self._rollout.run(steps, most, self._statistics, self._glance)

    @property
    def env_steps(self) -> int:
        return self._rollout.steps

    @property
    def agent_steps(self) -> int:
        return self._rollout.steps

    @property
    def episodes(self) -> int:
        return self.learner.episodes

    @property
    def episode_began(self) -> int:
        """Env steps before the running episode."""
        return self._rollout.episode_began

    @property
    def coverage(self) -> float:
        """Fraction of all (state, action) pairs ever tried."""
        visits = self.learner.visits
        return float((visits > 0).sum() / visits.size)

    @property
    def mean_return(self) -> float | None:
        """Mean return of the episodes since statistics were read."""
        return self._statistics.mean_reward if self._statistics.total_episodes else None

    def read_statistics(self) -> Statistics:
        """Return the statistics and reset them."""
        seen, self._statistics = self._statistics, TrainingStatistics()
        steps, self._read_at = self.env_steps - self._read_at, self.env_steps
        errors = self.learner._engine.take_error_sum()
        return Statistics.of(seen, errors / steps if steps else None, self.learner.epsilon)

    def save(self, folder: Path) -> None:
        self.learner.save(folder / FILE)
        standing = self._rollout.standing()
        (folder / ROLLOUT).write_text(json.dumps(None if standing is None else standing._asdict()))

    def restore(self, folder: Path, env_steps: int) -> None:
        self._open(TabularLearner.load(folder / FILE))
        self._rollout.steps = self._read_at = env_steps
        file = folder / ROLLOUT  # checkpoints of earlier versions have none: they were written between two episodes
        standing = json.loads(file.read_text()) if file.exists() else None
        if standing is not None and not self._rollout.resume(RolloutPosition(**standing)):
            print(f"{self.env.spec.env_id} does not reproduce the running episode from its seed: starting a new one")


def on_twin(folder: Path) -> bool:
    """Return whether the table's rows are the states of a compiled twin; else they are codes of the env's own space."""
    return (folder / TWIN_FILE).exists()


def read_values(folder: Path, policy: str = "") -> Values:
    """Return values [state, action]; `policy` names a player where each has its own table."""
    if on_twin(folder):
        values = read_table(folder / TWIN_FILE)[TENSORS.get(policy, "values")]
        return values
    return TabularLearner.load(folder / FILE).values
