"""Runs in an env itself, step by step: which tables there are, and how their checkpoints play."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import BinsGiven, SpaceCode
from mosaic.envs.env import EnvSpec
from mosaic.learners.tabular.seat_codes import Codes, check_sharing, codes_of, needs_bins
from mosaic.learners.tabular.storage import Storage, choose_storage
from mosaic.policies.tabular import TabularPolicyController

if TYPE_CHECKING:  # what brings numba along is imported when a run begins
    from mosaic.learners.tabular.played_training import PlayedTraining
    from mosaic.learners.tabular.seats_training import SeatsTraining
    from mosaic.workers.tabular import TabularWorkerOptions

POLICY = "table"
SEATS = ("first", "second")  # policies where each seat has its own table


class TablePlan(NamedTuple):
    tables: Mapping[AgentID, str]
    codes: Codes  # of the first agent
    storage: Storage


def plan_tables(config: RunConfig, spec: EnvSpec, algorithm: str, options: TabularWorkerOptions, why: str) -> TablePlan:
    """Which tables the env will be learned in, or an error where it cannot be."""
    runtime = config.resources.runtime
    if runtime not in (None, "single"):
        raise InputError(f"The runtime {runtime} needs a compiled loop, but for {spec.env_id} {why}.")
    tables = _tables(spec, options)
    all_codes = {agent: codes_of(spec, agent, options.bins) for agent in tables}
    check_sharing(tables, all_codes, algorithm)
    codes = all_codes[next(iter(tables))]
    number, limit = len(set(tables.values())), memory_limit(options)
    storage = choose_storage(options.table, *codes, algorithm, options, tables=number, memory_limit=limit)
    return TablePlan(tables, codes, storage)


def memory_limit(options: TabularWorkerOptions) -> int | None:
    """In bytes."""
    return None if options.table_memory_mb is None else options.table_memory_mb * 2**20


def make_played_training(
    config: RunConfig, algorithm: str, options: TabularWorkerOptions, why: str
) -> PlayedTraining | SeatsTraining:
    """The kind of table that fits; `why` is why the env is played itself. Both are said on the log."""
    from mosaic.learners.tabular.seats_training import SeatsTraining

    env = make_env(config.environment)
    tables, codes, storage = plan_tables(config, env.spec, algorithm, options, why)
    limit = memory_limit(options)
    _announce(algorithm, env.spec, tables, storage, why, codes.states)
    table = options.of_the_table()
    if storage == "dense" and len(tables) == 1 and (options.bins is not None or not needs_bins(codes.states)):
        env.close()
        return _one_agent(config, algorithm, options)
    return SeatsTraining(env, tables, storage, algorithm, table, config.seed, bins=options.bins, memory_limit=limit)


def _one_agent(config: RunConfig, algorithm: str, options: TabularWorkerOptions) -> PlayedTraining:
    from mosaic.learners.tabular.played_training import PlayedTraining

    environment = config.environment
    if options.bins is not None:
        bins = "/".join(map(str, options.bins)) if isinstance(options.bins, list) else str(options.bins)
        wrappers = (*environment.wrappers, f"discretise:bins={bins}")
        environment = environment.model_copy(update={"wrappers": wrappers})
    return PlayedTraining(make_env(environment), algorithm, options.of_the_table(), config.seed)


def in_seats(folder: Path, policy: str) -> bool:
    from mosaic.learners.tabular.seats_training import table_file

    return table_file(folder, policy).exists()


def seats_controller(
    folder: Path, policy: str, spec: EnvSpec, agent: AgentID, bins: BinsGiven | None
) -> TabularPolicyController:
    """A state that training never met has the row of every new one: any legal action, by the controller's own seed."""
    from mosaic.learners.tabular.hashed_keys import keys_of
    from mosaic.learners.tabular.hashed_learner import HashedLearner
    from mosaic.learners.tabular.learner import TabularLearner
    from mosaic.learners.tabular.seats_training import is_hashed, table_file

    file = table_file(folder, policy)
    codes = codes_of(spec, agent, bins)
    key = keys_of(codes.states)
    if not is_hashed(file):
        return TabularPolicyController(TabularLearner.load(file).values, key, codes.actions.decode)
    learner = HashedLearner.load(file)
    unknown = learner.states

    def row_of(observation: object) -> int:
        row = learner.find(key(observation))
        return unknown if row is None else row

    return TabularPolicyController(np.concatenate([learner.values, learner.new_row()]), row_of, codes.actions.decode)


def _tables(spec: EnvSpec, options: TabularWorkerOptions) -> Mapping[AgentID, str]:
    agents = spec.possible_agents
    if not agents:
        raise InputError(f"{spec.env_id} does not name its agents ahead, so none can be given a table.")
    if len(agents) > 1 and options.opponent != "self":
        raise InputError(
            f"{spec.env_id} is learned by self-play alone, not against opponent={options.opponent}. "
            "Type: training.params.opponent=self"
        )
    if options.tables == "one":
        return dict.fromkeys(agents, POLICY)
    if len(agents) != len(SEATS):
        raise InputError(f"tables=two is for two agents, and {spec.env_id} has {len(agents)}. Use tables=one.")
    return dict(zip(agents, SEATS, strict=True))


def _announce(
    algorithm: str, spec: EnvSpec, tables: Mapping[AgentID, str], storage: str, why: str, states: SpaceCode
) -> None:
    from mosaic.learners.tabular.hashed_keys import describe_keys

    print(f"{algorithm} in {spec.env_id} itself, step by step: {why}")
    if len(tables) > 1:
        by_turns = "by turns" if spec.facts.turn_based else "at the same time"
        whose = "share one table" if len(set(tables.values())) == 1 else "have a table each"
        print(f"{len(tables)} agents act {by_turns} and {whose}; to each, the others are part of the env")
    if storage == "hashed":
        print(f"A hashed table, with a row for each state that is met: {describe_keys(states)}")
