"""Tabular runs in an env itself, step by step: their tables, and controllers for their checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.seeding import child_seed
from mosaic.envs.codes import SpaceCode
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import close_shared_envs, env_spec, take_env
from mosaic.learners.tabular.training.agent_codes import (
    Codes,
    Storage,
    boxes,
    check_sharing,
    choose_storage,
    codes_of,
    needs_bins,
)
from mosaic.workers.tabular.mapping import TableMapping, read_table_mapping

if TYPE_CHECKING:  # modules that import numba are imported when a run begins
    from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
    from mosaic.learners.tabular.training.resumable import PlayedTraining
    from mosaic.learners.tabular.training.twin import SteppedEnv
    from mosaic.workers.tabular.options import TabularWorkerOptions


class TablePlan(NamedTuple):
    codes: Codes  # of the first agent
    storage: Storage


def plan_tables(
    config: RunConfig,
    spec: EnvSpec,
    algorithm: str,
    options: TabularWorkerOptions,
    mapping: TableMapping,
    why: str,
) -> TablePlan:
    """Return which kind of table the env is learned in, or raise if it cannot be."""
    runtime = config.resources.runtime
    alone = _why_alone(spec, algorithm, options, mapping) if runtime not in (None, "single") else None
    if alone is not None:
        raise InputError(
            f"The runtime {runtime} needs a compiled loop, but for {spec.env_id} {why}; and it cannot be stepped in "
            f"several processes: {alone}."
        )
    tables = mapping.tables
    all_codes = {agent: codes_of(spec, agent, options.bins) for agent in tables}
    check_sharing(tables, all_codes, algorithm)
    codes = all_codes[next(iter(tables))]
    largest = max(all_codes.values(), key=lambda each: each.states.size * each.actions.size)
    number, limit = len(set(tables.values())), memory_limit(options)
    storage = choose_storage(options.table, *largest, algorithm, options, tables=number, memory_limit=limit)
    if runtime not in (None, "single") and storage != "dense":
        raise InputError(f"The runtime {runtime} needs a dense table, and {spec.env_id} has too many states for one.")
    return TablePlan(codes, storage)


def _why_alone(spec: EnvSpec, algorithm: str, options: TabularWorkerOptions, mapping: TableMapping) -> str | None:
    """Return why only one learner can train in an env stepped in Python; None if several can share the table."""
    if len(spec.possible_agents) != 1 or not mapping.uniform:
        return "tables of several agents are not merged"
    if algorithm == "double_q_learning" or options.table_engine != "fused":
        return f"{algorithm} on the engine {options.table_engine} has no table that is merged"
    if options.table == "hashed":
        return "hashed tables are not merged"
    if options.bins is None and boxes(spec.observation_spaces[spec.possible_agents[0]]):
        return "its observations need bins, such as --set training.params.bins=8"
    return None


def memory_limit(options: TabularWorkerOptions) -> int | None:
    """Return the limit in bytes."""
    return None if options.table_memory_mb is None else options.table_memory_mb * 2**20


def make_played_training(
    config: RunConfig, algorithm: str, options: TabularWorkerOptions, why: str
) -> PlayedTraining | MultiAgentTraining:
    """Return a training with the kind of table that fits.

    `why` is why the env itself is stepped. Both are logged.
    """
    from mosaic.learners.tabular.training.agent_tables import TableSetup
    from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
    from mosaic.runners.fixed_policies import ControllerOthers

    spec = env_spec(config.environment)
    mapping = read_table_mapping(config, options, spec)
    codes, storage = plan_tables(config, spec, algorithm, options, mapping, why)
    _announce(algorithm, spec, mapping, storage, why, codes.states)
    simple = options.bins is not None or not needs_bins(codes.states)
    if storage == "dense" and len(spec.possible_agents) == 1 and simple:
        return _one_agent(config, algorithm, options)
    opponents = None
    if mapping.played:
        opponents = ControllerOthers(spec, mapping.played, child_seed(config.seed, "others", 0))
    setup = TableSetup(algorithm, options.of_the_table(), storage, options.bins, memory_limit(options))
    return MultiAgentTraining(
        take_env(config.environment),
        mapping.tables,
        setup,
        config.seed,
        trained=mapping.trained,
        opponents=opponents,
        most_env_steps=config.training.total_timesteps,
    )


def _one_agent(config: RunConfig, algorithm: str, options: TabularWorkerOptions) -> PlayedTraining:
    from mosaic.envs.wrappers.registry import wrap
    from mosaic.learners.tabular.training.resumable import PlayedTraining

    env = wrap(take_env(config.environment), _binning(options))
    return PlayedTraining(env, algorithm, options.of_the_table(), config.seed)


def _binning(options: TabularWorkerOptions) -> tuple[str, ...]:
    """Return the wrapper that puts observations into bins, if that is asked for."""
    if options.bins is None:
        return ()
    bins = "/".join(map(str, options.bins)) if isinstance(options.bins, list) else str(options.bins)
    return (f"discretise:bins={bins}",)


def stepped_env(config: RunConfig, algorithm: str, options: TabularWorkerOptions, why: str) -> SteppedEnv:
    """Return the env for learners in several processes, or raise if only a single one can train in it."""
    from mosaic.learners.tabular.training.twin import SteppedEnv

    spec = env_spec(config.environment)
    mapping = read_table_mapping(config, options, spec)
    codes, _ = plan_tables(config, spec, algorithm, options, mapping, why)
    wrappers = (*config.environment.wrappers, *_binning(options))
    environment = config.environment.model_copy(update={"wrappers": wrappers})
    close_shared_envs()
    print(f"{algorithm} in {config.environment.id} itself, stepped in several processes: {why}")
    return SteppedEnv(environment.model_dump_json(), np.ones((codes.states.size, codes.actions.size), np.uint8))


def _announce(algorithm: str, spec: EnvSpec, mapping: TableMapping, storage: str, why: str, states: SpaceCode) -> None:
    from mosaic.learners.tabular.hashed.learner import describe_keys

    print(f"{algorithm} in {spec.env_id} itself, step by step: {why}")
    if len(spec.possible_agents) > 1:
        by_turns = "by turns" if spec.facts.turn_based else "at the same time"
        print(f"{len(spec.possible_agents)} agents act {by_turns}; to each, the others are part of the env")
        for table, agents in mapping.agents_of_tables().items():
            learns = "learn in" if table in mapping.trained else "act with, and do not change,"
            print(f"{', '.join(agents)} {learns} the table '{table}'")
        for agent, policy in mapping.played.items():
            print(f"{agent} is played by {policy}")
    if storage == "hashed":
        print(f"A hashed table, with a row for each state that is met: {describe_keys(states)}")
