"""Whether the options of a worker can be shown as forms."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel

from mosaic.testing.worker.promises import Proof, WorkerContractError
from mosaic.workers.api import Worker

_PROMISE = "options(algorithm) is the pydantic model whose JSON schema builds every form"


def check_options(worker: Worker) -> list[Proof]:
    return [_check(worker, algorithm) for algorithm in worker.info.algorithms]


def _check(worker: Worker, algorithm: str) -> Proof:
    model, schema = _schema(worker, algorithm)
    capability = f"options of {algorithm}"
    fields: dict[str, dict[str, Any]] = schema.get("properties", {})
    silent = [name for name, field in fields.items() if not field.get("description")]
    if silent:
        raise WorkerContractError(
            worker.info.name,
            capability,
            f"{', '.join(silent)} of {model.__name__} has no description",
            _PROMISE,
            'say Field(…, description="…") on every field',
        )
    if model.model_config.get("extra") != "forbid":
        raise WorkerContractError(
            worker.info.name,
            capability,
            f"{model.__name__} takes names that it does not know",
            "a misspelt option is refused, not ignored",
            'say model_config = ConfigDict(extra="forbid")',
        )
    return Proof(capability, f"{len(fields)} fields, each described")


def _schema(worker: Worker, algorithm: str) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        model = worker.options(algorithm)
        schema = model.model_json_schema()
        json.dumps(schema)
    except Exception as error:
        raise WorkerContractError(
            worker.info.name,
            f"options of {algorithm}",
            f"it has no JSON schema: {type(error).__name__}: {error}",
            _PROMISE,
            "return a subclass of pydantic.BaseModel whose fields JSON can hold",
        ) from error
    return model, schema
