"""Which worker a run asks for, and whether it can do what is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ValidationError

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, unknown
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.reference import explain
from mosaic.workers.api import Worker

if TYPE_CHECKING:
    from mosaic.envs.env import EnvFacts


def load_worker(name: str) -> Worker:
    worker: Worker = load_plugin("mosaic.workers", name)
    return worker


def options_model(worker: Worker, algorithm: str) -> type[BaseModel]:
    if algorithm not in worker.info.algorithms:
        raise unknown(f"algorithm of the worker {worker.info.name}", algorithm, worker.info.algorithms)
    return worker.options(algorithm)


def parse_params(worker: Worker, algorithm: str, params: dict[str, Any]) -> BaseModel:
    """`training.params` as the worker's own options."""
    model = options_model(worker, algorithm)
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise InputError(f"training.params of {worker.info.name} {algorithm}: {explain(error, model)}") from error


def resolve(config: RunConfig) -> RunConfig:
    """The configuration with worker, algorithm and policy configuration filled in and checked."""
    name = config.training.worker or _pick_worker(config)
    worker = load_worker(name)
    info = worker.info
    algorithm = config.training.algorithm or info.algorithms[0]
    parse_params(worker, algorithm, dict(config.training.params))
    family = config.environment.family
    if "*" not in info.env_families and family not in info.env_families:
        raise InputError(
            f"The worker {name} cannot train {config.environment.id}: it knows the families "
            f"{', '.join(info.env_families)}. Type: mosaic workers"
        )
    facts = _checked_facts(config, worker)
    paradigm = config.policy_configuration
    if paradigm is None and info.paradigms:
        plays_itself = "self_play" in info.paradigms and facts is not None and facts.turn_based and facts.competitive
        paradigm = "self_play" if plays_itself else info.paradigms[0]
    if paradigm is not None and paradigm not in info.paradigms:
        raise InputError(
            f"The worker {name} has no policy configuration '{paradigm}'. "
            f"It has: {', '.join(info.paradigms) or 'none'}."
        )
    training = config.training.model_copy(update={"worker": name, "algorithm": algorithm})
    return config.model_copy(update={"training": training, "policy_configuration": paradigm})


def _pick_worker(config: RunConfig) -> str:
    """Small spaces that are compiled already belong to a table."""
    from mosaic.envs.compiled.twins import find_twin

    if "tabular" in plugins("mosaic.workers") and find_twin(config.environment) is not None:
        return "tabular"
    raise InputError(
        f"No worker offers itself for {config.environment.id}. Say which one trains: "
        f"--worker {' | '.join(plugins('mosaic.workers'))}."
    )


def _checked_facts(config: RunConfig, worker: Worker) -> EnvFacts | None:
    """Makes the env once: its agents and spaces are known only then. None where the worker takes any env."""
    from mosaic.envs.catalog import make_env
    from mosaic.workers.fit import cares, check_fit

    if not cares(worker.info):
        return None
    env = make_env(config.environment)
    try:
        check_fit(worker.info, env.spec)
        return env.spec.facts
    finally:
        env.close()
