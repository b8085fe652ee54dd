"""Workers by name, and their options."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote

from pydantic import BaseModel, ValidationError

from mosaic.config.run import SCHEMA_DIALECT
from mosaic.core.errors import InputError, known_spelling, unknown
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.reference import explain
from mosaic.workers.api import Worker


def load_worker(name: str) -> Worker:
    """Load the worker of that name, in upper or lower case."""
    worker: Worker = load_plugin("mosaic.workers", known_spelling(name, plugins("mosaic.workers")))
    return worker


def algorithm_of(worker: Worker, asked: str | None) -> str:
    """Return the algorithm as the worker spells it; its first where none was asked for."""
    return worker.info.algorithms[0] if asked is None else known_spelling(asked, worker.info.algorithms)


def options_model(worker: Worker, algorithm: str) -> type[BaseModel]:
    algorithm = algorithm_of(worker, algorithm)
    if algorithm not in worker.info.algorithms:
        known = worker.info.algorithms
        raise unknown(
            f"algorithm of the worker {worker.info.name}",
            algorithm,
            known,
            _algorithm_advice(worker.info.name, algorithm),
        )
    return worker.options(algorithm)


def options_schema(worker: Worker, algorithm: str) -> dict[str, object]:
    """Return the JSON schema of `training.params`, with an `$id` that changes with the worker's version."""
    algorithm = algorithm_of(worker, algorithm)
    schema = options_model(worker, algorithm).model_json_schema()
    names = [quote(name, safe="") for name in (worker.info.name, algorithm, worker.info.version)]
    return {
        **schema,
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:mosaic-rl:worker:{':'.join(names)}",
        "version": worker.info.version,
    }


# Algorithms with a name of their own elsewhere that are an option here.
_KNOWN_AS: Mapping[str, str] = {
    "mappo": "--algo ppo --policies shared_value_function --set training.params.shared_actor=true",
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
    if others and asked not in _KNOWN_AS:
        have = (
            f"worker {others[0]} has" if len(others) == 1 else f"workers {', '.join(others[:-1])} and {others[-1]} have"
        )
        return f"The {have} {asked}: type --worker {others[0]} --algo {asked}"
    if asked not in _KNOWN_AS:
        return ""
    said = _KNOWN_AS[asked]
    if worker == "rllib":
        said = said.replace("training.params.memory=lstm", "training.params.use_lstm=true")
    elif worker == "tabular":
        said += " --worker native"
    return f"What is called {asked} elsewhere is an option here: type {said}"


def parse_params(worker: Worker, algorithm: str, params: Mapping[str, object]) -> BaseModel:
    """Parse `training.params` into the worker's options."""
    model = options_model(worker, algorithm)
    try:
        return model.model_validate(params)
    except ValidationError as error:
        raise InputError(f"training.params of {worker.info.name} {algorithm}: {explain(error, model)}") from error
