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
from typing import Any, NamedTuple
from urllib.parse import quote

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Mask, Turn
from mosaic.envs.codes import BinsGiven, SpaceCode, flatten_mask
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.learner_view import LearnerView, Others
from mosaic.learners.tabular.hashed.keys import KeyOf, keys_of
from mosaic.learners.tabular.hashed.learner import HashedLearner, keys_file
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions, epsilon_after
from mosaic.learners.tabular.statistics import CUSTOM_METRICS, TrainingStatistics
from mosaic.learners.tabular.training.agent_codes import (
    Codes,
    check_sharing,
    codes_of,
)
from mosaic.learners.tabular.training.rollout import MOST_RECORDED, Glance
from mosaic.learners.tabular.training.table_kind import Storage
from mosaic.learners.tabular.training.twin import Statistics

COUNTS = "seats.json"


class TabularAgent(NamedTuple):
    """Codes and table of one agent."""

    codes: Codes
    table: str
    key: KeyOf


@dataclass(slots=True)
class RunningEpisode:
    """Episode that may be left after any env step; the actions so far recreate it in another process."""

    turn: Turn
    returns: dict[AgentID, float]
    epsilons: dict[str, float]  # of each table at its start: the schedule counts whole episodes
    waiting: dict[AgentID, tuple[int, int]] = field(default_factory=dict)  # acted, not learned yet: row and column
    earned: dict[AgentID, float] = field(default_factory=dict)
    length: int = 0
    columns: list[dict[AgentID, int]] = field(default_factory=list)  # of each env step, up to MOST_RECORDED


class MultiAgentTraining:
    """Training of several agents with tables; each episode is seeded by its number.

    `tables` names a table for each learning agent; agents with the same name share it. `trained` names the tables that
    learn (None: all); the others act with the values they have. `opponents` plays the agents without a table.
    `most_env_steps` also ends training in mid-episode; opponents' steps count.
    """

    def __init__(
        self,
        env: Env,
        tables: Mapping[AgentID, str],
        storage: Storage,
        algorithm: str,
        options: TabularOptions,
        seed: int,
        *,
        bins: BinsGiven | None = None,
        memory_limit: int | None = None,
        trained: Collection[str] | None = None,
        opponents: Others | None = None,
        most_env_steps: int | None = None,
    ) -> None:
        self.env, self._storage, self._options, self._seed = env, storage, options, seed
        self._memory_limit, self._view = memory_limit, LearnerView(env, tables, opponents)
        self._most_env_steps = math.inf if most_env_steps is None else most_env_steps
        self._seats = {agent: _seat(env.spec, agent, table, bins) for agent, table in tables.items()}
        self.learners: dict[str, TabularLearner] = {}
        check_sharing(tables, {agent: seat.codes for agent, seat in self._seats.items()}, algorithm)
        owners = {seat.table: seat.codes for seat in self._seats.values()}
        for number, (table, codes) in enumerate(owners.items()):
            self.learners[table] = self._new(codes, algorithm, child_seed(seed, "learner", number))
        self._trained = frozenset(self.learners if trained is None else trained)
        self.env_steps = self.agent_steps = self.episodes = 0
        self._statistics, self._errors = TrainingStatistics(), _Mean()
        self._returns = {table: _Mean() for table in self.learners}
        self.table_returns: Mapping[str, float | None] = {}  # mean return of the agents of each table, as last read
        self._glance: Glance | None = None
        self._episode: RunningEpisode | None = None

    def watch(self, glance: Glance) -> None:
        self._glance = glance

    def advance(self, steps: int, episodes: int = 0) -> None:
        """Take this many agent steps (those of one env step together), or stop after `episodes` in all (0: no limit).

        The running episode is kept, and the next call continues it.
        """
        goal = self.agent_steps + steps
        while self._goes_on(goal) and not (episodes and self.episodes >= episodes):
            if self._episode is None:
                self._episode = self._begin()
            self._play(self._episode, goal)
            if self._episode.turn.over:
                self._finish(self._episode)

    def _goes_on(self, goal: int) -> bool:
        return self.agent_steps < goal and self.env_steps < self._most_env_steps

    def _begin(self) -> RunningEpisode:
        seed = child_seed(self._seed, "tabular", "train", self.episodes)
        epsilons = {table: learner.epsilon for table, learner in self.learners.items()}
        return RunningEpisode(self._view.begin(seed), dict.fromkeys(self.env.possible_agents, 0.0), epsilons)

    def _play(self, episode: RunningEpisode, goal: int) -> None:
        first = next(iter(self._seats))
        while episode.turn.observations and self._goes_on(goal):
            columns = {a: self._decide(a, episode) for a in episode.turn.observations if a in self._seats}
            self._step(episode, columns)
            self.env_steps += 1
            self.agent_steps += len(columns)
            if self._glance is not None:
                self._glance(episode.length, episode.turn.rewards.get(first, 0.0), episode.returns)
            for agent in episode.turn.final_observations:
                if agent in episode.waiting:
                    self._end(agent, episode.turn, episode.waiting.pop(agent), episode.earned[agent])

    def _step(self, episode: RunningEpisode, columns: dict[AgentID, int]) -> None:
        """Act with these columns for the agents of the tables, and let the opponents act for the others."""
        actions: dict[AgentID, Action] = {a: self._seats[a].codes.actions.decode(c) for a, c in columns.items()}
        episode.turn = self._view.step(actions)
        episode.length += 1
        if episode.length <= MOST_RECORDED:
            episode.columns.append(columns)
        for agent, reward in episode.turn.rewards.items():
            episode.earned[agent] = episode.earned.get(agent, 0.0) + reward
            episode.returns[agent] += reward

    def _finish(self, episode: RunningEpisode) -> None:
        self._episode = None
        self.episodes += 1
        self._statistics.add_episode(episode.returns[next(iter(self._seats))], episode.length)
        for info in episode.turn.infos.values():
            if info and CUSTOM_METRICS in info:
                self._statistics.add_metrics(info[CUSTOM_METRICS])
        for agent, seat in self._seats.items():
            self._returns[seat.table].add(episode.returns[agent])
        for table in self._trained:  # once, however many agents of the table have ended
            learner = self.learners[table]
            learner.episodes = self.episodes
            learner.epsilon = epsilon_after(self._options, episode.epsilons[table], self.episodes)

    def _decide(self, agent: AgentID, episode: RunningEpisode) -> int:
        seat, turn, waiting = self._seats[agent], episode.turn, episode.waiting
        learner = self.learners[seat.table]
        row, mask = self._row(seat, turn.observations[agent]), _flat(seat.codes.actions, turn.action_masks.get(agent))
        if agent in waiting and seat.table in self._trained:
            self._errors.add(abs(learner.update(*waiting[agent], episode.earned[agent], row, False, mask)))
        column = learner.select_action(row, mask)
        waiting[agent], episode.earned[agent] = (row, column), 0.0
        return column

    def _end(self, agent: AgentID, turn: Turn, step: tuple[int, int], earned: float) -> None:
        """Learn the last step of an agent; a terminal state needs no row, since its value is never read."""
        seat, terminated = self._seats[agent], turn.terminated[agent]
        if seat.table not in self._trained:
            return
        last = step[0] if terminated else self._row(seat, turn.final_observations[agent])
        learner = self.learners[seat.table]
        self._errors.add(abs(learner.update(*step, earned, last, terminated, truncated=not terminated)))

    def _row(self, seat: TabularAgent, observation: Any) -> int:
        key = seat.key(observation)
        learner = self.learners[seat.table]
        return learner.row(key) if isinstance(learner, HashedLearner) else key

    def close(self) -> None:
        if self._view.others is not None:
            self._view.others.close()
        self.env.close()

    def agents_of_tables(self) -> dict[str, tuple[AgentID, ...]]:
        return {
            table: tuple(agent for agent, seat in self._seats.items() if seat.table == table) for table in self.learners
        }

    @property
    def coverage(self) -> float:
        """Fraction of (state, action) pairs ever tried; in hashed tables, among the states that were met."""
        tried = sum(int((learner.visits > 0).sum()) for learner in self.learners.values())
        pairs = sum(_states(learner) * learner.actions for learner in self.learners.values())
        return tried / pairs if pairs else 0.0

    @property
    def mean_return(self) -> float | None:
        """Mean return of the episodes since statistics were read."""
        return self._statistics.mean_reward if self._statistics.total_episodes else None

    def read_statistics(self) -> Statistics:
        """Return the statistics and reset them; the return is the first agent's."""
        seen, self._statistics = self._statistics, TrainingStatistics()
        errors, self._errors = self._errors, _Mean()
        self.table_returns = {table: mean.mean for table, mean in self._returns.items()}
        self._returns = {table: _Mean() for table in self.learners}
        any_ended = seen.total_episodes > 0
        return Statistics(
            seen.total_episodes,
            seen.mean_reward if any_ended else None,
            seen.min_reward if any_ended else None,
            seen.max_reward if any_ended else None,
            seen.mean_episode_length if any_ended else None,
            errors.mean,
            next(iter(self.learners.values())).epsilon,
            seen.metric_means(),
        )

    @property
    def episode_began(self) -> int:
        """Env steps before the running episode."""
        return self.env_steps - (self._episode.length if self._episode else 0)

    def save(self, folder: Path) -> None:
        for table, learner in self.learners.items():
            learner.save(table_file(folder, table))
        counts: dict[str, Any] = {"episodes": self.episodes, "agent_steps": self.agent_steps}
        if self._episode is not None:
            running = self._episode
            columns = running.columns if running.length <= MOST_RECORDED else None
            counts["running"] = {"length": running.length, "epsilons": running.epsilons, "columns": columns}
        (folder / COUNTS).write_text(json.dumps(counts))

    def restore(self, folder: Path, env_steps: int) -> None:
        for table in self.learners:
            file = table_file(folder, table)
            hashed = is_hashed(file)
            self.learners[table] = HashedLearner.load(file, self._memory_limit) if hashed else TabularLearner.load(file)
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
            if acted.keys() != {agent for agent in episode.turn.observations if agent in self._seats}:
                print(
                    f"{self.env.spec.env_id} does not reproduce the running episode from its seed: starting a new one"
                )
                return None
            for agent, column in acted.items():
                row = self._row(self._seats[agent], episode.turn.observations[agent])
                episode.waiting[agent], episode.earned[agent] = (row, column), 0.0
            self._step(episode, acted)
            for agent in episode.turn.final_observations:
                episode.waiting.pop(agent, None)
        return episode

    def _new(self, codes: Codes, algorithm: str, seed: int) -> TabularLearner:
        if self._storage == "hashed":
            return HashedLearner(codes.actions.size, algorithm, self._options, seed, memory_limit=self._memory_limit)
        return TabularLearner(codes.states.size, codes.actions.size, algorithm, self._options, seed)


class _Mean:
    """Mean of the numbers added so far."""

    __slots__ = ("_count", "_sum")

    def __init__(self) -> None:
        self._sum, self._count = 0.0, 0

    def add(self, number: float) -> None:
        self._sum += number
        self._count += 1

    @property
    def mean(self) -> float | None:
        return self._sum / self._count if self._count else None


def table_file(folder: Path, table: str) -> Path:
    return folder / f"seat-{quote(table, safe='')}.safetensors"


def is_hashed(file: Path) -> bool:
    return keys_file(file).exists()


def _seat(spec: EnvSpec, agent: AgentID, table: str, bins: BinsGiven | None) -> TabularAgent:
    codes = codes_of(spec, agent, bins)
    return TabularAgent(codes, table, keys_of(codes.states))


def _flat(actions: SpaceCode, mask: Any) -> Mask | None:
    return None if mask is None else mask if len(actions.counts) == 1 else flatten_mask(actions, mask)


def _states(learner: TabularLearner) -> int:
    return len(learner) if isinstance(learner, HashedLearner) else learner.states
