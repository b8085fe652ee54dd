"""Resolution of a run configuration: the choice of its worker, checks, and a value for everything left open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from pydantic import BaseModel

from mosaic.config.programs import with_absolute_paths
from mosaic.config.run import RunConfig
from mosaic.config.sections import DEFAULT_TIMESTEPS, PolicyConfiguration
from mosaic.core.errors import InputError
from mosaic.core.plugins import plugins
from mosaic.workers.api import ChecksRuns, ChoosesAlgorithm, CompletesRuns, Worker
from mosaic.workers.presets import with_preset
from mosaic.workers.registry import algorithm_of, load_worker, parse_params
from mosaic.workers.submission import check_ahead, check_in_env, maps_agents, unmet_resources

if TYPE_CHECKING:
    from mosaic.envs.env import EnvSpec


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """Configuration of a run with all defaults written, and what was learned about its env on the way."""

    asked: RunConfig  # before Mosaic filled in what it leaves open
    config: RunConfig  # what runs
    spec: EnvSpec | None  # agents, spaces and kind of the env; None if the worker takes any env
    usual_policies: PolicyConfiguration | None  # policy configuration of runs that ask for none

    def renamed(self, asked: RunConfig) -> ResolvedConfig:
        """Return the same for a run that differs in its seed, id and name, on which nothing else depends."""
        changes = {"seed": asked.seed, "run_id": asked.run_id, "name": asked.name}
        return replace(self, asked=asked, config=self.config.model_copy(update=changes))


def resolve(config: RunConfig) -> ResolvedConfig:
    """Fill in and check every value that decides what runs; the env is made at most once for this."""
    from mosaic.envs.shared_env import sharing_envs

    with sharing_envs():
        chosen, worker, options, spec, usual = _choose(config)
        if spec is not None and isinstance(worker, CompletesRuns):
            chosen, options = worker.complete(chosen, options, spec)
    return ResolvedConfig(config, with_options(chosen, options), spec, usual)


def choose(config: RunConfig) -> RunConfig:
    """Return the configuration with worker, algorithm, preset and policy configuration filled in and checked.

    Values that depend on options that may still change stay open.
    """
    from mosaic.envs.shared_env import sharing_envs

    with sharing_envs():
        return _choose(config).config


def with_limit(config: RunConfig) -> RunConfig:
    """Give a run without any limit the default number of env steps."""
    training = config.training
    if training.total_timesteps or training.episodes or training.stop_reward is not None:
        return config
    limited = training.model_copy(update={"total_timesteps": DEFAULT_TIMESTEPS})
    return config.model_copy(update={"training": limited})


def with_options(config: RunConfig, options: BaseModel) -> RunConfig:
    """Write every option of the worker into `training.params`, including those that were not set."""
    params = options.model_dump(mode="json", round_trip=True)
    return config.model_copy(update={"training": config.training.model_copy(update={"params": params})})


class _Chosen(NamedTuple):
    config: RunConfig
    worker: Worker
    options: BaseModel
    spec: EnvSpec | None  # None if the worker takes any env
    usual_policies: PolicyConfiguration | None


def _choose(config: RunConfig) -> _Chosen:
    config = with_absolute_paths(config)
    name = config.training.worker or _pick_worker(config)
    worker = load_worker(name)
    info = worker.info
    check_ahead(worker, config)
    family = config.environment.family
    if "*" not in info.env_families and family not in info.env_families:
        raise InputError(
            f"The worker {name} cannot train {config.environment.id}: it knows the families "
            f"{', '.join(info.env_families)}. Type: mosaic workers"
        )
    if family == "external" and not info.external_envs:
        raise InputError(
            f"The worker {name} steps its envs itself, and {config.environment.id} is stepped by the program that "
            f"connects. Workers that train in such envs: {', '.join(_workers_of_programs())}. Type: --worker native"
        )
    algorithm = algorithm_of(worker, config.training.algorithm or default_algorithm(worker, config))
    config = with_preset(config, name, algorithm)
    options = parse_params(worker, algorithm, dict(config.training.params))
    spec = _fitting_spec(config, worker)
    config = _with_possible_envs(config, worker, spec)
    possible = info.paradigms_of(algorithm)
    usual = _usual_policies(config, possible, spec)
    paradigm = config.policy_configuration or usual
    if paradigm is not None and paradigm not in info.paradigms:
        raise _unknown_policies(f"The worker {name}", paradigm, info.paradigms)
    training = config.training.model_copy(update={"worker": name, "algorithm": algorithm})
    config = config.model_copy(update={"training": training, "policy_configuration": paradigm})
    if spec is not None and isinstance(worker, ChecksRuns):
        worker.check(config, options, spec)  # it knows why an algorithm lacks a policy configuration
    if paradigm is not None and paradigm not in possible:
        raise _unknown_policies(f"The algorithm {algorithm} of {name}", paradigm, possible)
    if spec is not None:
        check_in_env(worker, config, spec)
    _check_later_stages(config, worker, options)
    return _Chosen(config, worker, options, spec, usual)


def _unknown_policies(what: str, asked: PolicyConfiguration, known: Sequence[PolicyConfiguration]) -> InputError:
    return InputError(f"{what} has no policy configuration '{asked}'. It has: {', '.join(known) or 'none'}.")


def _workers_of_programs() -> list[str]:
    return [name for name in plugins("mosaic.workers") if load_worker(name).info.external_envs]


def default_algorithm(worker: Worker, config: RunConfig) -> str:
    """Return the algorithm of a run that names none: the worker's first, unless it chooses one for the env."""
    from mosaic.envs.shared_env import env_spec
    from mosaic.workers.capability_check import check_fit

    if not isinstance(worker, ChoosesAlgorithm):
        return worker.info.algorithms[0]
    spec = env_spec(config.environment)
    check_fit(worker.info, spec)
    return worker.default_algorithm(config, spec)


def _with_possible_envs(config: RunConfig, worker: Worker, spec: EnvSpec | None) -> RunConfig:
    """Fill in how many envs run at once where the env has a number of its own; refuse more than there can be."""
    if spec is None or spec.facts.usual_envs is None:
        return config
    most, environment, resources = spec.facts.max_envs, config.environment, config.resources
    asked = {"environment.num_envs": environment.num_envs, "resources.num_env_runners": resources.num_env_runners}
    for name, number in asked.items():
        if most is not None and number is not None and number > most:
            raise InputError(
                f"{name}={number}: {spec.env_id} can be played {most} at a time. Leave it out; an exported game "
                "(godot/PATH) can be played any number of times in parallel."
            )
    if environment.num_envs is None and "num_envs" in worker.info.resources:
        environment = environment.model_copy(update={"num_envs": spec.facts.usual_envs})
    if most is not None and "num_env_runners" in worker.info.resources:
        resources = resources.model_copy(update={"num_env_runners": most})
    return config.model_copy(update={"environment": environment, "resources": resources})


def _check_later_stages(config: RunConfig, worker: Worker, options: BaseModel) -> None:
    """Make the env of every stage of a curriculum once, and raise InputError where it cannot follow the first."""
    from mosaic.envs.shared_env import env_spec
    from mosaic.workers.curriculum import check_same_spaces, stage_config

    if not config.environment.curriculum:
        return
    first = env_spec(config.environment.at_stage(0))
    for stage in range(1, len(config.environment.curriculum)):
        staged = stage_config(config, stage)
        try:
            spec = env_spec(staged.environment)
            check_same_spaces(first, spec, stage)
            if isinstance(worker, ChecksRuns):
                worker.check(staged, options, spec)
        except InputError as error:
            text = str(error)
            start = "" if text.startswith("environment.curriculum") else f"environment.curriculum, stage {stage + 1}: "
            raise type(error)(start + text) from error


def _usual_policies(
    config: RunConfig, paradigms: Sequence[PolicyConfiguration], spec: EnvSpec | None
) -> PolicyConfiguration | None:
    if not paradigms:
        return None
    return "self_play" if "self_play" in paradigms and _suits_self_play(config, spec) else paradigms[0]


def _suits_self_play(config: RunConfig, spec: EnvSpec | None) -> bool:
    """Return whether the env is a turn-based zero-sum game in which at least two agents learn."""
    from mosaic.learners.agent_roles import leaves_self_play

    if config.environment.family == "external":  # no league plays there
        return False
    return spec is not None and spec.facts.turn_based and spec.facts.competitive and leaves_self_play(config, spec)


MOST_STATES_FOR_A_TABLE = 10_000  # of an env without a known twin: a table of this size is learned in seconds


def _pick_worker(config: RunConfig) -> str:
    """Return the tabular worker for envs with few states, otherwise one that trains networks."""
    offered = plugins("mosaic.workers")
    if "tabular" in offered and _asks_for_nothing_else(config, "tabular") and _has_few_states(config):
        return "tabular"
    if "native" in offered:
        return "native"
    raise InputError(
        f"No worker offers itself for {config.environment.id}. Say which one trains: --worker {' | '.join(offered)}."
    )


def _asks_for_nothing_else(config: RunConfig, name: str) -> bool:
    """Return whether the worker supports all that is configured: algorithm, options, paradigm and resources."""
    worker, training = load_worker(name), config.training
    algorithm = algorithm_of(worker, training.algorithm)
    if training.init is not None or training.policies or algorithm not in worker.info.algorithms:
        return False
    if config.environment.curriculum and not worker.info.curriculum:
        return False
    if config.environment.family == "external" and not worker.info.external_envs:
        return False
    if config.policy_configuration not in (None, *worker.info.paradigms) or unmet_resources(worker.info, config):
        return False
    known = worker.options(algorithm).model_fields
    return all(option in known for option in training.params)


def _has_few_states(config: RunConfig) -> bool:
    """Return whether the env has a compiled twin, or one agent with few observations and actions."""
    from mosaic.envs.codes import space_code
    from mosaic.envs.compiled.registry import find_twin
    from mosaic.envs.shared_env import env_spec

    if find_twin(config.environment) is not None:
        return True
    spec = env_spec(config.environment)
    if len(spec.possible_agents) != 1:
        return False
    (agent,) = spec.possible_agents
    try:
        states, actions = space_code(spec.observation_spaces[agent]), space_code(spec.action_spaces[agent])
    except InputError:  # a space whose members cannot be numbered
        return False
    return states.size <= MOST_STATES_FOR_A_TABLE and states.size * actions.size <= 10 * MOST_STATES_FOR_A_TABLE


def _fitting_spec(config: RunConfig, worker: Worker) -> EnvSpec | None:
    """Return the agents and spaces of the env, after a check that the worker can train in it.

    Return None if the worker takes any env.
    """
    from mosaic.envs.shared_env import env_spec
    from mosaic.workers.capability_check import cares, check_fit

    if not cares(worker.info) and not maps_agents(config):
        return None
    spec = env_spec(config.environment)
    check_fit(worker.info, spec)
    return spec
