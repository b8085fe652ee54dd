"""Agent mapping of tabular runs: the table of each learning agent, and the agents played by fixed policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from mosaic.config.run import RunConfig
from mosaic.config.sections import PolicyConfiguration
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.compiled.mdp.mdp import GameTables
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec
from mosaic.learners.agent_roles import group_names, read_mapping
from mosaic.learners.opponents import check_played
from mosaic.workers.tabular.options import TabularWorkerOptions

if TYPE_CHECKING:
    from mosaic.learners.tabular.training.twin import Statistics
    from mosaic.workers.tabular.options import TabularWorkerOptions
    from mosaic.workers.tabular.training import TableTraining


POLICY = "table"
FIRST_AND_SECOND = ("first", "second")  # policies with tables=two


class TableMapping(NamedTuple):
    tables: Mapping[AgentID, str]  # of the agents that learn
    trained: frozenset[str]  # names of the tables that learn; the others keep their values
    played: Mapping[AgentID, PolicyID]  # agents of fixed policies

    @property
    def uniform(self) -> bool:
        """Return whether one table learns for every agent, as the compiled loops require."""
        return not self.played and len(set(self.tables.values())) == 1

    def agents_of_tables(self) -> dict[str, tuple[AgentID, ...]]:
        names = dict.fromkeys(self.tables.values())
        return {name: tuple(agent for agent, table in self.tables.items() if table == name) for name in names}


def is_default(config: RunConfig) -> bool:
    """Return whether the run has no settings for single agents and policies: the env's agents are not needed."""
    return not config.agents and config.policies_to_train is None and config.policy_configuration != "independent"


def read_table_mapping(config: RunConfig, options: TabularWorkerOptions, spec: EnvSpec) -> TableMapping:
    """Return the mapping.

    Raise InputError if rules, paradigm and options contradict each other or cannot be honoured.
    """

    def names(paradigm: PolicyConfiguration, learners: Sequence[AgentID], spec: EnvSpec) -> Mapping[AgentID, str]:
        if options.tables == "two":
            return _two_tables(spec)
        if paradigm == "self_play":
            return dict.fromkeys(learners, POLICY)
        return (
            {agent: agent for agent in learners} if paradigm == "independent" else group_names(learners, spec, POLICY)
        )

    roles = read_mapping(config, spec, names)
    if roles.ages:
        raise InputError(
            "self@-N: the worker tabular keeps no snapshots of its tables. Name another opponent, or train with "
            "--worker native."
        )
    if options.opponent != "self" and not is_default(config):
        raise InputError(
            f"training.params.opponent={options.opponent} and the mapping (--agent, --policies, policies_to_train) "
            "both say who plays. Leave one of them out: --agent NAME=random gives that agent a random policy."
        )
    check_played(roles.every_played, spec)
    plan = roles.plan
    tables = {agent: plan.names[k] for agent, k in zip(roles.learners, plan.policy_of, strict=True)}
    trained = frozenset(name for name, learns in zip(plan.names, plan.trained, strict=True) if learns)
    return TableMapping(tables, trained, roles.played)


def _two_tables(spec: EnvSpec) -> Mapping[AgentID, str]:
    agents = spec.possible_agents
    if len(agents) != len(FIRST_AND_SECOND):
        raise InputError(
            f"tables=two is for two agents, and {spec.env_id} has {len(agents)}. Leave it out, and use "
            "--policies independent for a table of each agent's own."
        )
    return dict(zip(agents, FIRST_AND_SECOND, strict=True))


TWO_TABLES = {"first": ("player_1",), "second": ("player_2",)}  # policies if each player has its own table


class Roles(NamedTuple):
    """Policies of the run's agents."""

    policies: Mapping[str, tuple[AgentID, ...]]  # the tables, each with the agents (as patterns) that it plays for
    played: Mapping[AgentID, PolicyID]  # agents of fixed policies


def mapping_of(config: RunConfig, options: TabularWorkerOptions) -> TableMapping | None:
    """Return the mapping, or None if the run has no settings for single agents and policies."""
    if is_default(config):
        return None
    return read_table_mapping(config, options, env_spec(config.environment))


def roles_of(config: RunConfig, options: TabularWorkerOptions, training: TableTraining) -> Roles:
    """Return the tables of the run and the agents of fixed policies."""
    from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
    from mosaic.learners.tabular.training.twin import TwoTableTraining

    mapping = mapping_of(config, options)
    if mapping is not None:
        return Roles(mapping.agents_of_tables(), mapping.played)
    if isinstance(training, TwoTableTraining):
        return Roles(TWO_TABLES, {})
    if isinstance(training, MultiAgentTraining) and len(training.learners) > 1:
        return Roles(training.agents_of_tables(), {})
    return Roles({POLICY: ("*",)}, {})


def knows_one_of_two(training: TableTraining, opponent: str) -> bool:
    """Return whether both players of a zero-sum game learn, and the compiled loop counts the first one's returns."""
    from mosaic.learners.tabular.hashed.training import HashedTraining
    from mosaic.learners.tabular.optimal import Tabled

    if isinstance(training, HashedTraining):
        return True
    return isinstance(training, Tabled) and isinstance(training.twin, GameTables) and opponent == "self"


def policy_returns(
    training: TableTraining, statistics: Statistics, first_mean: float | None, roles: Roles
) -> Mapping[str, float | None]:
    """Return the mean return of each policy.

    Compiled loops know that of the agent that begins, `first_mean`, which in zero-sum games gives the other's.
    """
    from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
    from mosaic.learners.tabular.training.twin import TwoTableTraining

    if isinstance(training, MultiAgentTraining):
        return training.table_returns
    first, *others = roles.policies
    if isinstance(training, TwoTableTraining) and first_mean is not None:
        return {first: first_mean, **dict.fromkeys(others, 0.0 - first_mean)}
    return {first: statistics.return_mean, **dict.fromkeys(others)}


def policy_metrics(training: TableTraining, statistics: Statistics, roles: Roles) -> Mapping[str, Mapping[str, float]]:
    """Return the numbers in the env's infos for each policy; compiled loops have none."""
    from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining

    if isinstance(training, MultiAgentTraining):
        return training.table_metrics
    return {next(iter(roles.policies)): statistics.custom_metrics}
