"""Whether a worker starts with all that it says it can train: paradigms, and numbers of agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, PolicyConfiguration
from mosaic.core.errors import InputError
from mosaic.testing.worker.promises import Proof, WorkerContractError
from mosaic.testing.worker.stage import Stage

_MANY = 5  # agents, for a worker that sets no limit


def check_paradigms(
    stage: Stage, short: RunConfig, environments: Mapping[PolicyConfiguration, EnvironmentConfig]
) -> list[Proof]:
    """`short` is a run of seconds: its first event is all that is waited for."""
    proofs = []
    for paradigm in stage.info.paradigms:
        environment = environments.get(paradigm, stage.config.environment)
        changes = {"policy_configuration": paradigm, "environment": environment}
        proofs.append(_check_start(stage, short.model_copy(update=changes), f"paradigm {paradigm}"))
    return proofs


def check_agents(stage: Stage, short: RunConfig, crowd: Callable[[int], EnvironmentConfig]) -> list[Proof]:
    most = stage.info.max_agents
    fits = crowd(most or _MANY)
    families = stage.info.env_families
    if most is None and "*" not in families and fits.family not in families:
        return []  # there is no limit to be tried, and no env of ours to try it with
    proofs = [_check_start(stage, _with_env(short, fits), f"{most or _MANY} agents")]
    if most is not None:
        proofs.append(_check_too_many(stage, _with_env(short, crowd(most + 1)), most))
    return proofs


def _with_env(short: RunConfig, environment: EnvironmentConfig) -> RunConfig:
    return short.model_copy(update={"environment": environment})


def _check_start(stage: Stage, config: RunConfig, capability: str) -> Proof:
    try:
        rehearsal = stage.rehearse(config)
    except InputError as error:
        raise WorkerContractError(
            stage.info.name,
            capability,
            f"the run is refused: {error}",
            "a worker starts with all that it declares",
            "declare less, or give check_worker an env that fits (environments=…, crowd=…)",
        ) from error
    with rehearsal:
        first = rehearsal.see_training(capability)
    return Proof(capability, f"started in {config.environment.id}, {first.get('env_steps') or 0} env steps seen")


def _check_too_many(stage: Stage, config: RunConfig, most: int) -> Proof:
    capability = "max_agents"
    try:
        rehearsal = stage.rehearse(config)
    except InputError as error:
        return Proof(capability, f"{most} agents train, {most + 1} are refused: {error}")
    with rehearsal:
        rehearsal.run.stop(patience_s=0.0)
    raise WorkerContractError(
        stage.info.name,
        capability,
        f"a run with {most + 1} agents was started",
        f"it declares at most {most}",
        "raise max_agents, or see to it that possible_agents of the env are counted",
    )
