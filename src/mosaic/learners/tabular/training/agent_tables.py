"""Tables of several agents: which agent learns in which, what it learns, and their files."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.codes import BinsGiven, flatten_mask
from mosaic.envs.env import EnvSpec
from mosaic.learners.tabular.hashed.learner import HashedLearner, KeyOf, keys_file, keys_of
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import TabularOptions, epsilon_after
from mosaic.learners.tabular.statistics import RunningMean
from mosaic.learners.tabular.training.agent_codes import Codes, Storage, check_sharing, codes_of


@dataclass(frozen=True, slots=True)
class TableSetup:
    """Algorithm and kind of a run's tables."""

    algorithm: str
    options: TabularOptions
    storage: Storage = "dense"
    bins: BinsGiven | None = None  # of Box observations
    memory_limit: int | None = None  # bytes that a hashed table may grow to


class TabularAgent(NamedTuple):
    """Codes and table of one agent."""

    codes: Codes
    table: str
    key: KeyOf

    def mask(self, turn: Turn, agent: AgentID) -> Mask | None:
        """Return which columns are legal; None if all are."""
        mask = turn.action_masks.get(agent)
        actions = self.codes.actions
        return mask if mask is None or len(actions.counts) == 1 else flatten_mask(actions, mask)


class AgentTables:
    """Learners of the tables.

    `tables` names a table for each agent; agents with the same name share it. `trained` names the tables that learn
    (None: all); the others act with the values they have.
    """

    def __init__(
        self,
        spec: EnvSpec,
        tables: Mapping[AgentID, str],
        setup: TableSetup,
        seed: int,
        trained: Collection[str] | None = None,
    ) -> None:
        self._setup = setup
        self.agents = {agent: _agent(spec, agent, table, setup.bins) for agent, table in tables.items()}
        check_sharing(tables, {agent: each.codes for agent, each in self.agents.items()}, setup.algorithm)
        owners = {each.table: each.codes for each in self.agents.values()}
        self.learners: dict[str, TabularLearner] = {
            table: _new_learner(setup, codes, child_seed(seed, "learner", number))
            for number, (table, codes) in enumerate(owners.items())
        }
        self._trained = frozenset(self.learners if trained is None else trained)
        self._errors = RunningMean()

    def row(self, agent: AgentID, observation: Observation) -> int:
        each = self.agents[agent]
        key, learner = each.key(observation), self.learners[each.table]
        return learner.row(key) if isinstance(learner, HashedLearner) else key

    def decide(self, agent: AgentID, turn: Turn, waiting: tuple[int, int] | None, earned: float) -> tuple[int, int]:
        """Learn the agent's step that waits for its next observation, if any; return row and column of the next."""
        each = self.agents[agent]
        learner = self.learners[each.table]
        row, mask = self.row(agent, turn.observations[agent]), each.mask(turn, agent)
        if waiting is not None and each.table in self._trained:
            self._errors.add(abs(learner.update(*waiting, earned, row, False, mask)))
        return row, learner.select_action(row, mask)

    def end(self, agent: AgentID, turn: Turn, step: tuple[int, int], earned: float) -> None:
        """Learn the last step of an agent; a terminal state needs no row, since its value is never read."""
        table, terminated = self.agents[agent].table, turn.terminated[agent]
        if table not in self._trained:
            return
        last = step[0] if terminated else self.row(agent, turn.final_observations[agent])
        learner = self.learners[table]
        self._errors.add(abs(learner.update(*step, earned, last, terminated, truncated=not terminated)))

    def end_episode(self, episodes: int, epsilons: Mapping[str, float]) -> None:
        """Set each trained table's epsilon after `episodes`, once, however many of its agents have ended.

        `epsilons` are those at the start of the episode.
        """
        for table in self._trained:
            learner = self.learners[table]
            learner.episodes = episodes
            learner.epsilon = epsilon_after(self._setup.options, epsilons[table], episodes)

    def action(self, agent: AgentID, column: int) -> Action:
        return self.agents[agent].codes.actions.decode(column)

    def epsilons(self) -> dict[str, float]:
        return {table: learner.epsilon for table, learner in self.learners.items()}

    def by_table(self) -> dict[str, tuple[AgentID, ...]]:
        """Return the agents of each table."""
        return {
            table: tuple(agent for agent, each in self.agents.items() if each.table == table) for table in self.learners
        }

    @property
    def coverage(self) -> float:
        """Fraction of (state, action) pairs ever tried; in hashed tables, among the states that were met."""
        tried = sum(int((learner.visits > 0).sum()) for learner in self.learners.values())
        pairs = sum(_states(learner) * learner.actions for learner in self.learners.values())
        return tried / pairs if pairs else 0.0

    def take_error_mean(self) -> float | None:
        """Return the mean absolute error since the last call."""
        errors, self._errors = self._errors, RunningMean()
        return errors.mean

    def save(self, folder: Path) -> None:
        for table, learner in self.learners.items():
            learner.save(table_file(folder, table))

    def load(self, folder: Path) -> None:
        for table in self.learners:
            file = table_file(folder, table)
            hashed = is_hashed(file)
            self.learners[table] = (
                HashedLearner.load(file, self._setup.memory_limit) if hashed else TabularLearner.load(file)
            )


def table_file(folder: Path, table: str) -> Path:
    return folder / f"table-{quote(table, safe='')}.safetensors"


def is_hashed(file: Path) -> bool:
    return keys_file(file).exists()


def _agent(spec: EnvSpec, agent: AgentID, table: str, bins: BinsGiven | None) -> TabularAgent:
    codes = codes_of(spec, agent, bins)
    return TabularAgent(codes, table, keys_of(codes.states))


def _new_learner(setup: TableSetup, codes: Codes, seed: int) -> TabularLearner:
    actions, algorithm, options = codes.actions.size, setup.algorithm, setup.options
    if setup.storage == "hashed":
        return HashedLearner(actions, algorithm, options, seed, memory_limit=setup.memory_limit)
    return TabularLearner(codes.states.size, actions, algorithm, options, seed)


def _states(learner: TabularLearner) -> int:
    return len(learner) if isinstance(learner, HashedLearner) else learner.states
