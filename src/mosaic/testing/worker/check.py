"""Worker contract check: real runs that prove each declared capability."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypedDict, Unpack

from pydantic import BaseModel

from mosaic.config.run import SCHEMA_DIALECT, RunConfig
from mosaic.config.sections import EnvironmentConfig, PolicyConfiguration
from mosaic.core.errors import MosaicError, check_keywords
from mosaic.testing.toys import crowd as toy_crowd
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.experience import check_datasets, check_external
from mosaic.testing.worker.life_cycle import (
    check_agents,
    check_commands,
    check_paradigms,
    check_resume,
    check_seeds,
    check_whole,
)
from mosaic.testing.worker.mapping import check_mapping
from mosaic.testing.worker.policy_settings import check_policy_settings
from mosaic.testing.worker.population import check_population
from mosaic.testing.worker.rehearsal import ContractProof, WorkerContractError
from mosaic.testing.worker.returns import check_returns
from mosaic.testing.worker.settings import check_settings
from mosaic.workers.api import ResourceName, Worker, WorkerCapabilities
from mosaic.workers.registry import load_worker, options_schema

NOWHERE = "127.0.0.1:1"  # no cluster listens here
_TOO_MANY_GPUS = 1024
_ASKED: dict[ResourceName, tuple[dict[str, object], ...]] = {
    "num_envs": ({"num_envs": 2},),
    "num_env_runners": ({"num_env_runners": 2},),
    "num_cpus": ({"num_cpus": 2},),
    "num_gpus": ({"num_gpus": 1.0},),
    "runtime": ({"runtime": "parallel"}, {"runtime": "ray"}, {"runtime": "mpi"}),
    "ray_address": ({"ray_address": NOWHERE},),
}
_PROMISE = "resources are met, or refused before there is a run"


def check_resources(setup: ContractSetup) -> list[ContractProof]:
    declared = setup.info.resources
    for name, settings in _ASKED.items():
        for asked in settings if name not in declared else ():
            section = "environment" if name == "num_envs" else "resources"
            setup.refusal(setup.config, f"resources: {name}", {section: asked}, _PROMISE)
    unmet: tuple[dict[str, object], ...] = (
        {"num_gpus": float(_TOO_MANY_GPUS)},
        {"ray_address": NOWHERE, "runtime": "ray"},
    )
    for asked in unmet:
        setup.refusal(setup.config, "resources", {"resources": asked}, _PROMISE, MosaicError)
    refused = [name for name in _ASKED if name not in declared]
    return [
        ContractProof("resources", f"refused: {', '.join(refused) or 'none'}, GPUs and a cluster that are not there")
    ]


_PROMISE_FORMS = "options(algorithm) is the pydantic model whose JSON schema builds every form"


def check_options(worker: Worker) -> list[ContractProof]:
    return [_check(worker, algorithm) for algorithm in worker.info.algorithms]


def _check(worker: Worker, algorithm: str) -> ContractProof:
    model, schema = _schema(worker, algorithm)
    capability = f"options of {algorithm}"
    fields: dict[str, dict[str, Any]] = schema.get("properties", {})
    silent = [name for name, field in fields.items() if not field.get("description")]
    if silent:
        raise WorkerContractError(
            worker.info.name,
            capability,
            f"{', '.join(silent)} of {model.__name__} has no description",
            _PROMISE_FORMS,
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
    return ContractProof(capability, f"{len(fields)} fields, each described, in {schema['$id']}")


def _schema(worker: Worker, algorithm: str) -> tuple[type[BaseModel], dict[str, Any]]:
    try:
        model = worker.options(algorithm)
        declared = model.model_json_schema()
        json.dumps(declared)
    except Exception as error:
        raise WorkerContractError(
            worker.info.name,
            f"options of {algorithm}",
            f"it has no JSON schema: {type(error).__name__}: {error}",
            _PROMISE_FORMS,
            "return a subclass of pydantic.BaseModel whose fields JSON can hold",
        ) from error
    _check_identity(worker, algorithm, declared)
    return model, options_schema(worker, algorithm)


def _check_identity(worker: Worker, algorithm: str, declared: Mapping[str, object]) -> None:
    """Check that the schema is of the one dialect, and that its `$id` can name the worker's version."""
    dialect = declared.get("$schema", SCHEMA_DIALECT)
    wrong = None
    if dialect != SCHEMA_DIALECT:
        wrong = f"its schema says $schema={dialect!r}", "leave $schema out: Mosaic adds it"
    elif not re.fullmatch(r"\S+", worker.info.version):
        wrong = f"its version is {worker.info.version!r}", 'say version="1.0", or the version of its package'
    if wrong:
        raise WorkerContractError(
            worker.info.name,
            f"options of {algorithm}",
            wrong[0],
            "a schema has an $id with the version of its worker, and is of draft 2020-12",
            wrong[1],
        )


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """Evidence that every promise was kept."""

    worker: str
    proofs: tuple[ContractProof, ...]

    @property
    def proven(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(proof.capability for proof in self.proofs))


_SHORT_STEPS = 4000


class CheckOptions(TypedDict, total=False):
    """Arguments of `check_worker` that say where and how its runs are watched."""

    home: Path | None
    patience_s: float
    quiet_s: float
    rng: Random | None


def check_worker(
    worker: str | Worker,
    config: RunConfig,
    *,
    environments: Mapping[PolicyConfiguration, EnvironmentConfig] | None = None,
    crowd: Callable[[int], EnvironmentConfig] = toy_crowd,
    short: RunConfig | None = None,
    **options: Unpack[CheckOptions],
) -> WorkerReport:
    """Train repeatedly with a worker that is installed as a plug-in, and prove each of its capabilities.

    `config` is a run of some seconds with a limit, a few checkpoints and tens of metric events. `environments` gives
    another env for a paradigm that the config's env does not fit, `crowd` makes one for a number of agents. `short` is
    a run with several checkpoints, used to check mapping, paradigms and agents; default: a few thousand env steps of
    `config`.

    Options: runs are kept in `home` (None: deleted afterwards); a command is waited for `patience_s` (60); while a run
    is paused, nothing may happen for `quiet_s` (0.5); `rng` (None: a new one) picks the moment of the kill.

    Raises WorkerContractError, a ContractError, at the first broken promise.
    """
    check_keywords(check_worker, options, CheckOptions)
    known = _installed(worker)
    name = known.info.name
    config = _named(config, name)
    with TemporaryDirectory(prefix="mosaic-check-") as temporary:
        home, rng = options.get("home") or Path(temporary), options.get("rng") or Random()
        patience_s, quiet_s = options.get("patience_s", 60.0), options.get("quiet_s", 0.5)
        setup = ContractSetup(known, config, home, patience_s, quiet_s, rng)
        with setup.at_home():
            return WorkerReport(
                name, tuple(_prove(setup, environments or {}, crowd, _named(short or _short(config, known.info), name)))
            )


def _prove(
    setup: ContractSetup,
    environments: Mapping[PolicyConfiguration, EnvironmentConfig],
    crowd: Callable[[int], EnvironmentConfig],
    short: RunConfig,
) -> list[ContractProof]:
    """Run all checks, cheapest first."""
    proofs = check_options(setup.worker)
    proofs += check_resources(setup)
    proofs += check_mapping(setup, short)
    proofs += check_policy_settings(setup, short)
    proofs += check_returns(setup, short)
    whole, first, original = check_whole(setup)
    proofs += whole
    proofs += check_seeds(setup, first)
    proofs += check_resume(setup, first)
    proofs += check_population(setup, original, first)
    proofs += check_commands(setup)
    proofs += check_paradigms(setup, short, environments)
    proofs += check_agents(setup, short, crowd)
    proofs += check_settings(setup, short)
    proofs += check_datasets(setup, short)
    proofs += check_external(setup, short)
    return proofs


def _named(config: RunConfig, worker: str) -> RunConfig:
    return config.model_copy(update={"training": config.training.model_copy(update={"worker": worker})})


def _short(config: RunConfig, info: WorkerCapabilities) -> RunConfig:
    limits = {"total_timesteps": _SHORT_STEPS, "episodes": None, "stop_reward": None}
    saves = {"every_steps": _SHORT_STEPS // 4, "keep_last": 10, "at_end": True} if info.checkpoints else {}
    return config.model_copy(
        update={
            "training": config.training.model_copy(update=limits),
            "checkpoint": config.checkpoint.model_copy(update=saves),
        }
    )


def _installed(worker: str | Worker) -> Worker:
    """Return the installed worker; a run is a separate process and finds the worker only by its name."""
    name = worker if isinstance(worker, str) else worker.info.name
    found = load_worker(name)
    if found.info.name != name or (not isinstance(worker, str) and found.info != worker.info):
        raise WorkerContractError(
            name,
            "name",
            f"the entry point '{name}' leads to a worker that calls itself '{found.info.name}' {found.info.version}",
            "a worker is found by its name",
            f'say [project.entry-points."mosaic.workers"] {name} = "PACKAGE:OBJECT", and reinstall it',
        )
    return found
