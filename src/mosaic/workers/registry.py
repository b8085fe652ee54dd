"""Which worker a run asks for, and whether it can do what is asked."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, unknown
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.reference import explain
from mosaic.workers.api import Worker


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
    name = config.training.worker
    if name is None:
        raise InputError(f"Say which worker trains: --worker {' | '.join(plugins('mosaic.workers'))}.")
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
    paradigm = config.policy_configuration
    if paradigm is None and info.paradigms:
        paradigm = info.paradigms[0]
    if paradigm is not None and paradigm not in info.paradigms:
        raise InputError(
            f"The worker {name} has no policy configuration '{paradigm}'. "
            f"It has: {', '.join(info.paradigms) or 'none'}."
        )
    _check_env(config, worker)
    training = config.training.model_copy(update={"algorithm": algorithm})
    return config.model_copy(update={"training": training, "policy_configuration": paradigm})


def _check_env(config: RunConfig, worker: Worker) -> None:
    """Makes the env once: its agents and spaces are known only then."""
    from mosaic.envs.catalog import make_env
    from mosaic.workers.fit import cares, check_fit

    if not cares(worker.info):
        return
    env = make_env(config.environment)
    try:
        check_fit(worker.info, env.spec)
    finally:
        env.close()
