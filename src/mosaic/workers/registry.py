"""Selection of a run's worker, and checks of whether it can do what is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ValidationError

from mosaic.config.code_paths import with_absolute_code
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, unknown
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.reference import explain
from mosaic.workers.api import ChecksRuns, CompletesRuns, Worker
from mosaic.workers.completing import with_options
from mosaic.workers.presets import with_preset
from mosaic.workers.submission import check_ahead, check_in_env, maps_agents, unmet_resources

if TYPE_CHECKING:
    from mosaic.envs.env import EnvSpec


def load_worker(name: str) -> Worker:
    worker: Worker = load_plugin("mosaic.workers", name)
    return worker


def options_model(worker: Worker, algorithm: str) -> type[BaseModel]:
    if algorithm not in worker.info.algorithms:
        known = worker.info.algorithms
        raise unknown(
            f"algorithm of the worker {worker.info.name}",
            algorithm,
            known,
            _algorithm_advice(worker.info.name, algorithm),
        )
    return worker.options(algorithm)


# Algorithms with a name of their own elsewhere that are an option here.
_KNOWN_AS: Mapping[str, str] = {
    "mappo": "--algo ppo --policies shared_value_function",
    "ippo": "--algo ppo --policies independent",
    "recurrent_ppo": "--algo ppo --set training.params.memory=lstm",
    "ppo_lstm": "--algo ppo --set training.params.memory=lstm",
    "ppo_recurrent": "--algo ppo --set training.params.memory=lstm",
    "double_dqn": "--algo dqn --set training.params.double_q=true",
}


def _algorithm_advice(worker: str, algorithm: str) -> str:
    """Return which other worker has the algorithm, or which option it is here."""
    asked = algorithm.lower().replace("-", "_")
    others = [
        name for name in plugins("mosaic.workers") if name != worker and asked in load_worker(name).info.algorithms
    ]
    if others:
        return f"The worker {' and '.join(others)} has {asked}: type --worker {others[0]} --algo {asked}"
    if asked not in _KNOWN_AS:
        return ""
    said = _KNOWN_AS[asked]
    if worker == "rllib":
        said = said.replace("training.params.memory=lstm", "training.params.use_lstm=true")
    elif worker == "tabular":
        said += " --worker native"
    return f"What is called {asked} elsewhere is an option here: type {said}"


def parse_params(worker: Worker, algorithm: str, params: dict[str, Any]) -> BaseModel:
    """Parse `training.params` into the worker's options."""
    model = options_model(worker, algorithm)
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise InputError(f"training.params of {worker.info.name} {algorithm}: {explain(error, model)}") from error


class _Chosen(NamedTuple):
    config: RunConfig
    worker: Worker
    options: BaseModel
    spec: EnvSpec | None  # None if the worker takes any env


def resolve(config: RunConfig) -> RunConfig:
    """Return the configuration with every value that decides what runs filled in and checked."""
    config, worker, options, spec = _choose(config)
    if spec is not None and isinstance(worker, CompletesRuns):
        config, options = worker.complete(config, options, spec)
    return with_options(config, options)


def choose(config: RunConfig) -> RunConfig:
    """Return the configuration with worker, algorithm, preset and policy configuration filled in and checked.

    Values that depend on options that may still change stay open.
    """
    return _choose(config).config


def _choose(config: RunConfig) -> _Chosen:
    config = with_absolute_code(config)
    name = config.training.worker or _pick_worker(config)
    worker = load_worker(name)
    info = worker.info
    check_ahead(worker, config)
    algorithm = config.training.algorithm or info.algorithms[0]
    config = with_preset(config, name, algorithm)
    options = parse_params(worker, algorithm, dict(config.training.params))
    family = config.environment.family
    if "*" not in info.env_families and family not in info.env_families:
        raise InputError(
            f"The worker {name} cannot train {config.environment.id}: it knows the families "
            f"{', '.join(info.env_families)}. Type: mosaic workers"
        )
    spec = _fitting_spec(config, worker)
    paradigm = config.policy_configuration
    if paradigm is None and info.paradigms:
        paradigm = (
            "self_play" if "self_play" in info.paradigms and _suits_self_play(config, spec) else info.paradigms[0]
        )
    if paradigm is not None and paradigm not in info.paradigms:
        raise InputError(
            f"The worker {name} has no policy configuration '{paradigm}'. "
            f"It has: {', '.join(info.paradigms) or 'none'}."
        )
    training = config.training.model_copy(update={"worker": name, "algorithm": algorithm})
    config = config.model_copy(update={"training": training, "policy_configuration": paradigm})
    if spec is not None and isinstance(worker, ChecksRuns):
        worker.check(config, options, spec)
    if spec is not None:
        check_in_env(worker, config, spec)
    return _Chosen(config, worker, options, spec)


def _suits_self_play(config: RunConfig, spec: EnvSpec | None) -> bool:
    """Return whether the env is a turn-based zero-sum game in which at least two agents learn."""
    from mosaic.learners.agent_roles import leaves_self_play

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
    algorithm = training.algorithm or worker.info.algorithms[0]
    if training.init is not None or algorithm not in worker.info.algorithms:
        return False
    if config.policy_configuration not in (None, *worker.info.paradigms) or unmet_resources(worker.info, config):
        return False
    known = worker.options(algorithm).model_fields
    return all(option in known for option in training.params)


def _has_few_states(config: RunConfig) -> bool:
    """Return whether the env has a compiled twin, or one agent with few observations and actions."""
    from mosaic.envs.catalog import make_env
    from mosaic.envs.codes import space_code
    from mosaic.envs.compiled.registry import find_twin

    if find_twin(config.environment) is not None:
        return True
    env = make_env(config.environment)
    try:
        if len(env.possible_agents) != 1:
            return False
        (agent,) = env.possible_agents
        states, actions = space_code(env.observation_spaces[agent]), space_code(env.action_spaces[agent])
    except InputError:  # a space whose members cannot be numbered
        return False
    finally:
        env.close()
    return states.size <= MOST_STATES_FOR_A_TABLE and states.size * actions.size <= 10 * MOST_STATES_FOR_A_TABLE


def _fitting_spec(config: RunConfig, worker: Worker) -> EnvSpec | None:
    """Create the env to learn its agents and spaces, and check them. Return None if the worker takes any env."""
    from mosaic.envs.catalog import make_env
    from mosaic.workers.capability_check import cares, check_fit

    if not cares(worker.info) and not maps_agents(config):
        return None
    env = make_env(config.environment)
    try:
        check_fit(worker.info, env.spec)
        return env.spec
    finally:
        env.close()
