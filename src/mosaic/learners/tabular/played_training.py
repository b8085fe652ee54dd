"""Training in an env that is played in Python, episode by episode, so that it can be left after any of them."""

from __future__ import annotations

from pathlib import Path

from mosaic.core.errors import InputError
from mosaic.envs.codes import space_code
from mosaic.envs.env import Env
from mosaic.learners.tabular.env_training import Glance, train
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.settings import TabularOptions
from mosaic.learners.tabular.statistics import TrainingStatistics
from mosaic.learners.tabular.twin_training import Statistics

FILE = "learner.safetensors"


class PlayedTraining:
    """A learner in the one agent's place; each episode is seeded by its number, so a resumed one is the same."""

    def __init__(self, env: Env, algorithm: str, options: TabularOptions, seed: int) -> None:
        if len(env.possible_agents) != 1:
            raise InputError(
                f"{env.spec.env_id} has {len(env.possible_agents)} agents and no compiled twin: a table can learn "
                "there only if there is one agent."
            )
        (agent,) = env.possible_agents
        rows, columns = (space_code(spaces[agent]) for spaces in (env.observation_spaces, env.action_spaces))
        self.learner = TabularLearner(rows.size, columns.size, algorithm, options, seed)
        self.env_steps = 0
        self.env = env
        self._glance: Glance | None = None
        self._statistics = TrainingStatistics()

    def watch(self, glance: Glance) -> None:
        self._glance = glance

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Whole episodes until so many steps are reached, or so many episodes have ended in all (0: no such limit)."""
        goal = self.env_steps + steps
        while self.env_steps < goal and not (episodes and self.learner.episodes >= episodes):
            played = train(self.learner, self.env, episodes=1, glance=self._glance)
            self.env_steps += played.total_steps
            self._statistics.add_episode(played.mean_reward, played.total_steps)

    @property
    def agent_steps(self) -> int:
        return self.env_steps

    @property
    def episodes(self) -> int:
        return self.learner.episodes

    @property
    def coverage(self) -> float:
        """The share of all (state, action) pairs that were ever tried."""
        visits = self.learner.visits
        return float((visits > 0).sum() / visits.size)

    def read_statistics(self) -> Statistics:
        """And begin new ones."""
        seen, self._statistics = self._statistics, TrainingStatistics()
        any_ended = seen.total_episodes > 0
        return Statistics(
            seen.total_episodes,
            seen.mean_reward if any_ended else None,
            seen.min_reward if any_ended else None,
            seen.max_reward if any_ended else None,
            seen.mean_episode_length if any_ended else None,
            None,
            self.learner.epsilon,
        )

    def save(self, folder: Path) -> None:
        self.learner.save(folder / FILE)

    def restore(self, folder: Path, env_steps: int) -> None:
        self.learner = TabularLearner.load(folder / FILE)
        self.env_steps = env_steps
