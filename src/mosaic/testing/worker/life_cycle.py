"""Whether a run does what it is told, and refuses what its worker cannot do."""

from __future__ import annotations

import threading
from collections.abc import Callable

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, MosaicError
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.state import State
from mosaic.testing.worker.curve import training_events
from mosaic.testing.worker.promises import Proof
from mosaic.testing.worker.rehearsal import Rehearsal
from mosaic.testing.worker.stage import Stage
from mosaic.workers.host import STOPPED
from mosaic.workers.submission import unhonoured_settings


def check_commands(stage: Stage) -> list[Proof]:
    """One run is paused, resumed, saved and stopped; what the worker does not declare must be refused."""
    info = stage.info
    with stage.rehearse(_talkative(stage)) as rehearsal:
        rehearsal.see_training("a long run")
        proofs = [
            _check_pause(stage, rehearsal) if info.pause else _check_refused(rehearsal, "pause", rehearsal.run.pause),
            _check_checkpoint(rehearsal)
            if info.checkpoints
            else _check_refused(rehearsal, "checkpoint", rehearsal.run.checkpoint),
            _check_stop(stage, rehearsal),
        ]
        if not info.resume:
            proofs.append(_check_refused(rehearsal, "resume", rehearsal.run.resume))
    return proofs


def _talkative(stage: Stage) -> RunConfig:
    """Return a run without an end that reports often: one that follows its total alone would report nothing."""
    every_s = {} if "telemetry.report_every_s" in unhonoured_settings(stage.worker) else {"report_every_s": 0.25}
    return stage.changed(stage.endless(), {"telemetry": every_s})


def _check_pause(stage: Stage, rehearsal: Rehearsal) -> Proof:
    promise = "a paused run reports nothing, and goes on when it is resumed"
    rehearsal.run.pause(wait=False)
    if not rehearsal.reaches(State.PAUSED):
        found = f"asked to pause, the run is {rehearsal.run.state} after {stage.patience_s:g} s"
        advice = "call context.inbox.wait_while_paused() once in every iteration, or declare pause=False"
        raise rehearsal.broken("pause", found, promise, advice)
    before = rehearsal.events()
    threading.Event().wait(stage.quiet_s)
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
    return Proof("pause", f"silent for {stage.quiet_s:g} s at {steps} env steps, then went on")


def _check_checkpoint(rehearsal: Rehearsal) -> Proof:
    saved = rehearsal.run.checkpoint(rehearsal.patience_s)
    return Proof("checkpoints", f"saved at {saved.env_steps} env steps when asked to")


def _check_stop(stage: Stage, rehearsal: Rehearsal) -> Proof:
    promise = "a worker that is asked to stop saves and returns"
    rehearsal.run.stop(stage.patience_s)
    state, attempt = rehearsal.run.state, rehearsal.run.record().attempts[-1]
    if state is not State.STOPPED or attempt.exit != STOPPED:
        found = f"asked to stop, the run is {state} ({attempt.reason})"
        advice = "leave run(context) soon after context.inbox.stop_asked() says why"
        raise rehearsal.broken("stop", found, promise, advice)
    rehearsal.check_story()
    if stage.info.checkpoints and stage.config.checkpoint.at_end:
        told = [event.get("env_steps") or 0 for event in training_events(rehearsal.events())]
        saved = find_checkpoint(rehearsal.run.folder, "latest").env_steps
        if saved < told[-1]:
            found = f"it stopped at {told[-1]} env steps, and its last checkpoint is from {saved}"
            raise rehearsal.broken(
                "stop", found, promise, "save before returning, where config.checkpoint.at_end says so"
            )
    return Proof("stop", f"stopped when asked to, at {rehearsal.last_steps()} env steps")


def _check_refused(rehearsal: Rehearsal, order: str, give: Callable[[], object]) -> Proof:
    """Not the worker's own duty, but what its declaration means to whoever presses the button."""
    promise = "what a worker does not declare is refused with a message"
    advice = f"declare {order}, or tell Mosaic's authors: this is their mistake"
    try:
        give()
    except InputError as error:
        if rehearsal.worker in str(error):
            return Proof(f"no {order}", f"refused: {error}")
        found = f"the refusal does not name the worker: {error}"
    except MosaicError as error:
        found = f"it is refused with {type(error).__name__}, which is no message for people: {error}"
    else:
        found = f"the run took the order '{order}', which its worker does not declare"
    raise rehearsal.broken(f"no {order}", found, promise, advice)
