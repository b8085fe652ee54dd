"""Training in any env that is played in Python: one agent or several, in turns or at once, in tables of either kind.

An agent's step lasts from its action to its next observation, or to its end, with all rewards in between: the other
agents are part of its world. It learns from a step right before it decides again, so that SARSA's next action is the
one that is taken.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env
from mosaic.envs.learner_view import LearnerView, Others
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.statistics import AgentReturns, MeanNumbers, checked_numbers
from mosaic.learners.tabular.training.agent_tables import AgentTables, TableSetup
from mosaic.learners.tabular.training.rollout import MOST_RECORDED, Glance
from mosaic.learners.tabular.training.twin import Statistics

COUNTS = "agents.json"


@dataclass(slots=True)
class RunningEpisode:
    """Episode that may be left after any env step; the actions so far recreate it in another process."""

    turn: Turn
    returns: dict[AgentID, float]
    epsilons: dict[str, float]  # of each table at its start: the schedule counts whole episodes
    waiting: dict[AgentID, tuple[int, int]] = field(default_factory=dict)  # acted, not learned yet: row and column
    earned: dict[AgentID, float] = field(default_factory=dict)
    ended: set[AgentID] = field(default_factory=set)  # agents that the episode never had do not end
    length: int = 0
    columns: list[dict[AgentID, int]] = field(default_factory=list)  # of each env step, up to MOST_RECORDED


class MultiAgentTraining:
    """Training of several agents with tables; each episode is seeded by its number.

    `tables` and `trained` are as in `AgentTables`; `opponents` plays the agents without a table. `most_env_steps` also
    ends training in mid-episode; opponents' steps count.
    """

    def __init__(
        self,
        env: Env,
        tables: Mapping[AgentID, str],
        setup: TableSetup,
        seed: int,
        *,
        trained: Collection[str] | None = None,
        opponents: Others | None = None,
        most_env_steps: int | None = None,
    ) -> None:
        self.env, self._seed = env, seed
        self._view = LearnerView(env, tables, opponents)
        self._most_env_steps = math.inf if most_env_steps is None else most_env_steps
        self._tables = AgentTables(env.spec, tables, setup, seed, trained)
        self.env_steps = self.agent_steps = self.episodes = 0
        self._returns = AgentReturns()
        self.table_returns: Mapping[str, float | None] = {}  # mean return of the agents of each table, as last read
        self._numbers = MeanNumbers()
        self.table_metrics: Mapping[str, Mapping[str, float]] = {}  # numbers in the infos of those agents, as last read
        self._glance: Glance | None = None
        self._episode: RunningEpisode | None = None

    @property
    def learners(self) -> Mapping[str, TabularLearner]:
        """Learner of each table."""
        return self._tables.learners

    def watch(self, glance: Glance) -> None:
        self._glance = glance

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Take this many agent steps (those of one env step together), or stop after `episodes` in all (0: no limit).

        The running episode is kept, and the next call continues it.
        """
        goal = self.agent_steps + steps
        while self._is_due(goal) and not (episodes and self.episodes >= episodes):
            if self._episode is None:
                self._episode = self._begin()
            self._play(self._episode, goal)
            if self._episode.turn.over:
                self._finish(self._episode)

    def _is_due(self, goal: int) -> bool:
        return self.agent_steps < goal and self.env_steps < self._most_env_steps

    def _begin(self) -> RunningEpisode:
        seed = child_seed(self._seed, "tabular", "train", self.episodes)
        returns = dict.fromkeys(self.env.possible_agents, 0.0)
        return RunningEpisode(self._view.begin(seed), returns, self._tables.epsilons())

    def _play(self, episode: RunningEpisode, goal: int) -> None:
        tables, agents = self._tables, self._tables.agents
        first = next(iter(agents))
        while episode.turn.observations and self._is_due(goal):
            columns: dict[AgentID, int] = {}
            for agent in episode.turn.observations:
                if agent in agents:
                    earned = episode.earned.get(agent, 0.0)
                    step = tables.decide(agent, episode.turn, episode.waiting.get(agent), earned)
                    episode.waiting[agent], episode.earned[agent] = step, 0.0
                    columns[agent] = step[1]
            self._step(episode, columns)
            self.env_steps += 1
            self.agent_steps += len(columns)
            if self._glance is not None:
                self._glance(episode.length, episode.turn.rewards.get(first, 0.0), episode.returns)
            for agent in episode.turn.final_observations:
                if agent in episode.waiting:
                    tables.end(agent, episode.turn, episode.waiting.pop(agent), episode.earned[agent])
                if agent in agents:
                    self._numbers.add(agents[agent].table, checked_numbers(episode.turn.infos.get(agent, {})))

    def _step(self, episode: RunningEpisode, columns: dict[AgentID, int]) -> None:
        """Act with these columns for the agents of the tables, and let the opponents act for the others."""
        actions: dict[AgentID, Action] = {a: self._tables.action(a, column) for a, column in columns.items()}
        episode.turn = self._view.step(actions)
        episode.length += 1
        if episode.length <= MOST_RECORDED:
            episode.columns.append(columns)
        for agent, reward in episode.turn.rewards.items():
            episode.earned[agent] = episode.earned.get(agent, 0.0) + reward
            episode.returns[agent] += reward
        episode.ended.update(episode.turn.final_observations)

    def _finish(self, episode: RunningEpisode) -> None:
        self._episode = None
        self.episodes += 1
        agents = self._tables.agents
        ended = [(each.table, episode.returns[agent]) for agent, each in agents.items() if agent in episode.ended]
        self._returns.add_episode(ended, episode.length)
        self._tables.end_episode(self.episodes, episode.epsilons)

    def close(self) -> None:
        if self._view.others is not None:
            self._view.others.close()
        self.env.close()

    def agents_of_tables(self) -> dict[str, tuple[AgentID, ...]]:
        return self._tables.by_table()

    @property
    def coverage(self) -> float:
        """Fraction of (state, action) pairs ever tried; in hashed tables, among the states that were met."""
        return self._tables.coverage

    @property
    def mean_return(self) -> float | None:
        """Mean return of the tables' agents in the episodes since statistics were read."""
        return self._returns.mean

    def read_statistics(self) -> Statistics:
        """Return the statistics and reset them; returns are those of all agents of the tables."""
        seen, self._returns = self._returns, AgentReturns()
        self.table_returns = {table: seen.mean_of(table) for table in self.learners}
        self.table_metrics = self._numbers.take()
        error, epsilon = self._tables.take_error_mean(), next(iter(self.learners.values())).epsilon
        if seen.mean is None:
            return Statistics(seen.episodes, None, None, None, None, error, epsilon)
        return Statistics(seen.episodes, seen.mean, seen.least, seen.most, seen.steps / seen.episodes, error, epsilon)

    @property
    def episode_began(self) -> int:
        """Env steps before the running episode."""
        return self.env_steps - (self._episode.length if self._episode else 0)

    def save(self, folder: Path) -> None:
        self._tables.save(folder)
        counts: dict[str, object] = {"episodes": self.episodes, "agent_steps": self.agent_steps}
        if self._episode is not None:
            running = self._episode
            columns = running.columns if running.length <= MOST_RECORDED else None
            counts["running"] = {"length": running.length, "epsilons": running.epsilons, "columns": columns}
        (folder / COUNTS).write_text(json.dumps(counts))

    def restore(self, folder: Path, env_steps: int) -> None:
        self._tables.load(folder)
        counts = json.loads((folder / COUNTS).read_text())
        self.env_steps, self.episodes, self.agent_steps = env_steps, counts["episodes"], counts["agent_steps"]
        if (running := counts.get("running")) is not None:
            self._episode = self._replay(**running)

    def _replay(
        self, length: int, epsilons: dict[str, float], columns: list[dict[AgentID, int]] | None
    ) -> RunningEpisode | None:
        """Recreate the running episode from its actions; return None where that is impossible, and a new one begins."""
        if columns is None or not self.env.spec.facts.reproducible:
            print(f"The running episode of {length:,} steps cannot be replayed: starting a new one")
            return None
        episode = self._begin()
        episode.epsilons = epsilons
        for acted in columns:
            if acted.keys() != {agent for agent in episode.turn.observations if agent in self._tables.agents}:
                print(
                    f"{self.env.spec.env_id} does not reproduce the running episode from its seed: starting a new one"
                )
                return None
            for agent, column in acted.items():
                row = self._tables.row(agent, episode.turn.observations[agent])
                episode.waiting[agent], episode.earned[agent] = (row, column), 0.0
            self._step(episode, acted)
            for agent in episode.turn.final_observations:
                episode.waiting.pop(agent, None)
        return episode
