"""Tables and fixed policies of a tabular run, with the agents that each plays for."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import TYPE_CHECKING, NamedTuple

from mosaic.config.run import RunConfig
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.workers.tabular.mapping import POLICY, TableMapping, is_default, read_table_mapping
from mosaic.workers.tabular.options import TabularWorkerOptions

if TYPE_CHECKING:  # what brings numba along is imported when a run begins
    from mosaic.learners.tabular.training.twin import Statistics
    from mosaic.workers.tabular.training import TableTraining

TWO_TABLES = {"first": ("player_1",), "second": ("player_2",)}  # policies where each seat has its own table


class Roles(NamedTuple):
    """Who acts in the run."""

    policies: Mapping[str, tuple[AgentID, ...]]  # the tables, with the agents (as patterns) that each plays for
    played: Mapping[AgentID, PolicyID]  # agents of fixed policies


def mapping_of(config: RunConfig, options: TabularWorkerOptions) -> TableMapping | None:
    """Return None where the run says nothing about single agents and policies."""
    if is_default(config):
        return None
    with closing(make_env(config.environment)) as env:
        return read_table_mapping(config, options, env.spec)


def roles_of(config: RunConfig, options: TabularWorkerOptions, training: TableTraining) -> Roles:
    """Return the tables of the run and the agents of fixed policies."""
    from mosaic.learners.tabular.training.multi_agent import SeatsTraining
    from mosaic.learners.tabular.training.twin import TwoTableTraining

    mapping = mapping_of(config, options)
    if mapping is not None:
        return Roles(mapping.agents_of_tables(), mapping.played)
    if isinstance(training, TwoTableTraining):
        return Roles(TWO_TABLES, {})
    if isinstance(training, SeatsTraining) and len(training.learners) > 1:
        return Roles(training.agents_of_tables(), {})
    return Roles({POLICY: ("*",)}, {})


def policy_returns(training: TableTraining, statistics: Statistics, roles: Roles) -> Mapping[str, float | None]:
    """Return the mean return of each policy; compiled loops know that of the agent that begins, in zero-sum games."""
    from mosaic.learners.tabular.training.multi_agent import SeatsTraining
    from mosaic.learners.tabular.training.twin import TwoTableTraining

    if isinstance(training, SeatsTraining):
        return training.table_returns
    mean = statistics.return_mean
    first, *others = roles.policies
    other = 0.0 - mean if isinstance(training, TwoTableTraining) and mean is not None else None
    return {first: mean, **dict.fromkeys(others, other)}
