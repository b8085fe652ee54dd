"""Checks of a run's life cycle: commands, paradigms, number of agents, seeds, resume and extension."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, PolicyConfiguration
from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.run import Run
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.state import State
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.curve import Values, difference, training_events
from mosaic.testing.worker.plays import check_plays
from mosaic.testing.worker.rehearsal import ContractProof, Rehearsal, WorkerContractError
from mosaic.workers.host import STOPPED
from mosaic.workers.submission import unhonoured_settings


def check_commands(setup: ContractSetup) -> list[ContractProof]:
    """Pause, resume, save and stop one run; commands that the worker does not declare must be refused."""
    info = setup.info
    with setup.rehearse(_talkative(setup)) as rehearsal:
        rehearsal.see_training("a long run")
        proofs = [
            _check_pause(setup, rehearsal) if info.pause else _check_refused(rehearsal, "pause", rehearsal.run.pause),
            _check_checkpoint(rehearsal)
            if info.checkpoints
            else _check_refused(rehearsal, "checkpoint", rehearsal.run.checkpoint),
            _check_stop(setup, rehearsal),
        ]
        if not info.resume:
            proofs.append(_check_refused(rehearsal, "resume", rehearsal.run.resume))
    return proofs


def _talkative(setup: ContractSetup) -> RunConfig:
    """Return a run without an end that reports often: one that follows its total alone would report nothing."""
    every_s = {} if "telemetry.report_every_s" in unhonoured_settings(setup.worker) else {"report_every_s": 0.25}
    return setup.changed(setup.endless(), {"telemetry": every_s})


def _check_pause(setup: ContractSetup, rehearsal: Rehearsal) -> ContractProof:
    promise = "a paused run reports nothing, and continues when it is resumed"
    rehearsal.run.pause(wait=False)
    if not rehearsal.reaches(State.PAUSED):
        found = f"asked to pause, the run is {rehearsal.run.state} after {setup.patience_s:g} s"
        advice = "call context.inbox.wait_while_paused() once in every iteration, or declare pause=False"
        raise rehearsal.broken("pause", found, promise, advice)
    before = rehearsal.events()
    threading.Event().wait(setup.quiet_s)
    after = rehearsal.events()
    if len(after) > len(before):
        found = f"{len(after) - len(before)} events came while it was paused"
        advice = "let wait_while_paused() hold everything that trains"
        raise rehearsal.broken("pause", found, promise, advice)
    steps = rehearsal.last_steps()
    rehearsal.run.resume()
    further = rehearsal.see_training("pause", after_seq=after[-1]["seq"])
    reached = further.get("env_steps")
    if reached is not None and reached <= steps:
        found = f"after a pause at {steps} env steps the next event says {reached}"
        raise rehearsal.broken("pause", found, promise, "keep the counters over a pause")
    return ContractProof("pause", f"silent for {setup.quiet_s:g} s at {steps} env steps, then continued")


def _check_checkpoint(rehearsal: Rehearsal) -> ContractProof:
    saved = rehearsal.run.checkpoint(rehearsal.patience_s)
    return ContractProof("checkpoints", f"saved at {saved.env_steps} env steps when asked to")


def _check_stop(setup: ContractSetup, rehearsal: Rehearsal) -> ContractProof:
    promise = "a worker that is asked to stop saves and returns"
    rehearsal.run.stop(setup.patience_s)
    state, attempt = rehearsal.run.state, rehearsal.run.record().attempts[-1]
    if state is not State.STOPPED or attempt.exit != STOPPED:
        found = f"asked to stop, the run is {state} ({attempt.reason})"
        advice = "leave run(context) soon after context.inbox.stop_asked() says why"
        raise rehearsal.broken("stop", found, promise, advice)
    rehearsal.check_story()
    if setup.info.checkpoints and setup.config.checkpoint.at_end:
        told = [event.get("env_steps") or 0 for event in training_events(rehearsal.events())]
        saved = find_checkpoint(rehearsal.run.folder, "latest").env_steps
        if saved < told[-1]:
            found = f"it stopped at {told[-1]} env steps, and its last checkpoint is from {saved}"
            raise rehearsal.broken(
                "stop", found, promise, "save before returning, where config.checkpoint.at_end says so"
            )
    return ContractProof("stop", f"stopped when asked to, at {rehearsal.last_steps()} env steps")


def _check_refused(rehearsal: Rehearsal, order: str, give: Callable[[], object]) -> ContractProof:
    """Check that an undeclared command is refused; not the worker's own duty, but what its declaration means to the
    user.
    """
    promise = "what a worker does not declare is refused with a message"
    advice = f"declare {order}, or report this as a bug of Mosaic"
    try:
        give()
    except InputError as error:
        if rehearsal.worker in str(error):
            return ContractProof(f"no {order}", f"refused: {error}")
        found = f"the refusal does not name the worker: {error}"
    except MosaicError as error:
        found = f"it is refused with {type(error).__name__}, which is not a message for users: {error}"
    else:
        found = f"the run took the order '{order}', which its worker does not declare"
    raise rehearsal.broken(f"no {order}", found, promise, advice)


_MANY = 5  # agents, for a worker that sets no limit


def check_paradigms(
    setup: ContractSetup, short: RunConfig, environments: Mapping[PolicyConfiguration, EnvironmentConfig]
) -> list[ContractProof]:
    """Check that each declared paradigm starts; only the first event of `short`, a run of seconds, is awaited."""
    proofs = []
    for paradigm in setup.info.paradigms_of(short.training.algorithm):
        environment = environments.get(paradigm, setup.config.environment)
        changes = {"policy_configuration": paradigm, "environment": environment}
        proofs.append(_check_start(setup, short.model_copy(update=changes), f"paradigm {paradigm}"))
    return proofs


def check_agents(
    setup: ContractSetup, short: RunConfig, crowd: Callable[[int], EnvironmentConfig]
) -> list[ContractProof]:
    most = setup.info.max_agents
    fits = crowd(most or _MANY)
    families = setup.info.env_families
    if most is None and "*" not in families and fits.family not in families:
        return []  # no limit to try, and none of our envs to try it with
    proofs = [_check_start(setup, _with_env(short, fits), f"{most or _MANY} agents")]
    if most is not None:
        proofs.append(_check_too_many(setup, _with_env(short, crowd(most + 1)), most))
    return proofs


def _with_env(short: RunConfig, environment: EnvironmentConfig) -> RunConfig:
    return short.model_copy(update={"environment": environment})


def _check_start(setup: ContractSetup, config: RunConfig, capability: str) -> ContractProof:
    try:
        rehearsal = setup.rehearse(config)
    except InputError as error:
        raise WorkerContractError(
            setup.info.name,
            capability,
            f"the run is refused: {error}",
            "a worker starts with all that it declares",
            "declare less, or give check_worker an env that fits (environments=…, crowd=…)",
        ) from error
    with rehearsal:
        first = rehearsal.see_training(capability)
    return ContractProof(
        capability, f"started in {config.environment.id}, {first.get('env_steps') or 0} env steps seen"
    )


def _check_too_many(setup: ContractSetup, config: RunConfig, most: int) -> ContractProof:
    capability = "max_agents"
    try:
        rehearsal = setup.rehearse(config)
    except InputError as error:
        return ContractProof(capability, f"{most} agents train, {most + 1} are refused: {error}")
    with rehearsal:
        rehearsal.run.stop(patience_s=0.0)
    raise WorkerContractError(
        setup.info.name,
        capability,
        f"a run with {most + 1} agents was started",
        f"it declares at most {most}",
        "raise max_agents, or see to it that possible_agents of the env are counted",
    )


_FEW = 20  # events between a checkpoint and the kill, at most


def check_whole(setup: ContractSetup) -> tuple[list[ContractProof], list[Values], Run]:
    """Train one run to its limit and check what it leaves; other runs are compared with its curve."""
    with setup.rehearse() as rehearsal:
        curve = rehearsal.finish("a whole run")
        proofs = [ContractProof("a whole run", f"{len(curve)} events, {rehearsal.last_steps()} env steps")]
        saved = rehearsal.run.checkpoints()
        if setup.info.checkpoints and not saved:
            raise rehearsal.broken(
                "checkpoints", "a whole run left none", "a run saves its policies", "call context.checkpoint(…)"
            )
        if setup.info.checkpoints:
            find_checkpoint(rehearsal.run.folder, "latest")
            proofs.append(ContractProof("checkpoints", f"{len(saved)} after a whole run, the last one whole"))
            proofs += check_plays(setup, rehearsal)
    return proofs, curve, rehearsal.run


def check_seeds(setup: ContractSetup, first: list[Values]) -> list[ContractProof]:
    if not setup.info.seeds:
        return []
    with setup.rehearse() as rehearsal:
        second = rehearsal.finish("seeds")
    if different := difference(first, second):
        raise rehearsal.broken(
            "seeds",
            f"two runs with the seed {setup.config.seed} differ: {different}",
            "the same seed gives the same metrics",
            "draw all chance from generators that context.seed seeds, or declare seeds=False",
        )
    with setup.rehearse(seed=setup.config.seed + 1) as rehearsal:
        other = rehearsal.finish("seeds")
    if difference(first, other) is None:
        raise rehearsal.broken(
            "seeds",
            f"the runs with the seeds {setup.config.seed} and {setup.config.seed + 1} are the same",
            "another seed gives another run",
            "seed every generator with context.seed",
        )
    return [ContractProof("seeds", f"{len(first)} events twice the same, others with another seed")]


def check_resume(setup: ContractSetup, whole: list[Values]) -> list[ContractProof]:
    if not setup.info.resume:
        return []
    if not setup.info.checkpoints:
        raise WorkerContractError(
            setup.info.name,
            "resume",
            "it declares resume and no checkpoints",
            "a run continues from its last checkpoint",
            "declare checkpoints=True and write some, or declare resume=False",
        )
    with setup.rehearse() as rehearsal:
        saved = rehearsal.see("resume", "it had saved anything", lambda event: event["kind"] == "checkpoint")
        rehearsal.see_training("resume", setup.rng.randint(1, _FEW), after_seq=saved["seq"])
        rehearsal.kill_worker()
        rehearsal.run.resume()
        start = check_counters(rehearsal, "resume")
        curve = rehearsal.finish("resume")
        different = difference(whole, curve) if setup.info.seeds else None
        if different:
            raise rehearsal.broken(
                "resume",
                f"killed and resumed from {start} env steps, the run differs from one that was left alone: {different}",
                "with the same seed, metrics and randomness continue as if nothing had happened",
                "save the state of every generator, learner and env with the checkpoint, and put it back",
            )
        extended = check_extension(setup, rehearsal, curve)
    seen = f"killed and resumed from {start} env steps" + (", same curve" * setup.info.seeds)
    return [ContractProof("resume", seen), *extended]


def check_counters(rehearsal: Rehearsal, capability: str) -> int:
    """Return the step the run resumed from, checked against the first event after it."""
    resumed = rehearsal.see(capability, "it was resumed", lambda event: event["kind"] == "resumed")
    start = resumed.get("from_env_steps") or 0
    steps = rehearsal.see_training(capability, after_seq=resumed["seq"]).get("env_steps") or 0
    if not 0 < start < steps:
        raise rehearsal.broken(
            capability,
            f"resumed from {start} env steps, its next event says {steps}",
            "counters continue from the checkpoint",
            f"load context.resume_from before training, or declare {capability}=False",
        )
    return start


_EXTENDED = "a finished run continues to a higher limit, and its curve with it"
_SHARE = 4  # of its length by which the run is extended


def check_extension(setup: ContractSetup, finished: Rehearsal, curve: list[Values]) -> list[ContractProof]:
    """Extend the finished run; one with neither a limit of env steps nor of episodes is left as it is."""
    training, run = setup.config.training, finished.run
    if not setup.info.resume or not setup.config.checkpoint.at_end:
        return []
    if training.total_timesteps is not None:
        name, limit = "total_timesteps", training.total_timesteps
    elif training.episodes is not None:
        name, limit = "episodes", training.episodes
    else:
        return []
    reached = finished.last_steps()
    for refused in (limit, max(1, limit // 2)):
        _check_reached(finished, f"training.{name}={refused}")
    further = max(limit, reached if name == "total_timesteps" else limit)
    run.resume(settings=[f"training.{name}={further + max(1, further // _SHARE)}"])
    whole = finished.finish("extension")
    if finished.last_steps() <= reached:
        raise finished.broken(
            "extension", f"extended at {reached} env steps, it took none", _EXTENDED, "compare limits with the totals"
        )
    different = difference(curve, whole[: len(curve)])
    if different:
        raise finished.broken(
            "extension", f"the curve before the extension changed: {different}", _EXTENDED, "append events only"
        )
    saved = max(each.env_steps for each in run.checkpoints())
    return [ContractProof("extension", f"from {reached} to {finished.last_steps()} env steps, saved at {saved}")]


def _check_reached(finished: Rehearsal, setting: str) -> None:
    try:
        finished.run.resume(settings=[setting])
    except InputError:
        return
    raise finished.broken(
        "extension",
        f"a finished run was resumed with {setting}, which it has reached",
        "a limit that is reached is refused",
        "report this as a bug of Mosaic",
    )
