"""Check of population-based training: a run that continues from another run's checkpoint with other options."""

from __future__ import annotations

from collections.abc import Mapping

from mosaic.config.field_types import SHAPES_CHECKPOINTS
from mosaic.core.errors import InputError
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.trial import fork
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.curve import Values, difference
from mosaic.testing.worker.life_cycle import check_counters
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal, WorkerContractError
from mosaic.workers.registry import options_model, parse_params

_POPULATION = "population"
_PROMISE = "a run continues from another run's checkpoint with other options, as population-based training does"


def check_population(setup: ContractSetup, original: Run, whole: list[Values]) -> list[ContractProof]:
    """Continue from a checkpoint of `original`, whose curve is `whole`, with every real number among the options
    halved.
    """
    if not setup.info.population:
        return []
    if not (setup.info.resume and setup.info.checkpoints):
        found = "it declares population, and resume or checkpoints is missing"
        raise _broken(setup, found, "declare and keep all three, or declare population=False")
    source = min(original.checkpoints(), key=lambda checkpoint: checkpoint.env_steps)
    after = [event for event in whole if _steps(event) > source.env_steps]
    if not after:
        raise InputError(
            "The check of population needs a checkpoint before the end of the run. "
            "Give check_worker a config with smaller checkpoint.every_steps, or more checkpoint.keep_last."
        )
    changed = _halved(setup, original)
    params = {**setup.config.training.params, **changed}
    config = setup.changed(setup.config, {"run_id": None, "training": {"params": params}})
    with Rehearsal(fork(Trainer(setup.home), config, source.path, "population"), setup.patience_s) as rehearsal:
        rehearsal.run.start()
        start = check_counters(rehearsal, _POPULATION)
        curve = rehearsal.finish(_POPULATION, "declare population=False if a checkpoint fits no other options")
    if setup.info.seeds and difference(after, curve) is None:
        found = f"with {_shown(changed)} the copy trains exactly as the original does from {start} env steps on"
        raise _broken(setup, found, "take options from context.options, not from the checkpoint")
    return [ContractProof(_POPULATION, f"continued from {start} env steps with {_shown(changed)}")]


def _halved(setup: ContractSetup, original: Run) -> dict[str, float]:
    """Return half of each option that is a real number, where its bounds allow it; names that end in `_s` are times."""
    training = original.config.training  # every option is filled in
    algorithm = str(training.algorithm)
    fields = options_model(setup.worker, algorithm).model_fields
    changed: dict[str, float] = {}
    for name, value in training.params.items():
        fixed = name.endswith("_s") or SHAPES_CHECKPOINTS in fields[name].metadata
        if fixed or not isinstance(value, float) or not value:
            continue
        try:
            parse_params(setup.worker, algorithm, {**training.params, **changed, name: value / 2})
        except InputError:
            continue
        changed[name] = value / 2
    if not changed:
        raise _broken(
            setup, "it has no option that a copy could change", "declare population=False, or mark fewer options fixed"
        )
    return changed


def _steps(event: Mapping[str, object]) -> int:
    steps = event.get("env_steps")
    return steps if isinstance(steps, int) else 0


def _shown(changed: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={value:g}" for name, value in changed.items())


def _broken(setup: ContractSetup, found: str, advice: str) -> WorkerContractError:
    return WorkerContractError(setup.info.name, _POPULATION, found, _PROMISE, advice)
