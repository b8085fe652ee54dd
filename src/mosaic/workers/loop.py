"""Training loop shared by workers: iterate, report, save and evaluate until a limit is reached or a stop is requested.

A worker builds a `Trainable` and calls `train`. The order is the same for every worker: a report before a checkpoint, a
checkpoint before an evaluation, so that a failing evaluation loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from time import perf_counter
from typing import NamedTuple, Protocol, runtime_checkable

from mosaic.config.sections import DEFAULT_TIMESTEPS, EnvironmentConfig
from mosaic.core.compile_time import working_time
from mosaic.core.errors import MosaicError
from mosaic.workers.context import WorkerContext

_REPORTS = 200  # per run, if the interval is not configured


class Progress(NamedTuple):
    """Counters that decide when training is over."""

    env_steps: int
    episodes: int
    reward: float | None  # mean return of recent episodes; None before the first one ends


class Trainable(Protocol):
    """Training in progress, with the methods that the loop calls."""

    def iterate(self) -> None: ...  # train until the loop may next report, save or stop

    def progress(self) -> Progress: ...  # cheap: read after each iteration

    def metrics(self) -> Mapping[str, object]: ...  # fields of an iteration event, accumulated since the last call

    def save(self) -> None: ...  # write a checkpoint through `WorkerContext.checkpoint`

    def evaluate(self) -> Iterable[Mapping[str, object]]: ...  # play the current policies; one record for each opponent


@runtime_checkable
class Finishes(Protocol):
    """Training that may be over before a limit of the configuration is reached."""

    def finished(self) -> str | None: ...  # why there is nothing left to learn; None: there is


@runtime_checkable
class ChangesEnv(Protocol):
    """Training that can continue in another env with the same spaces, for a curriculum.

    Called between two iterations. Episodes begin again, and rewards of the earlier env are forgotten.
    """

    def change_env(self, environment: EnvironmentConfig) -> None: ...


def train(
    context: WorkerContext,
    training: Trainable,
    *,
    report_every_steps: int | None = None,
    save_every_steps: int | None = None,
    report_first: bool = False,
    report_gap_s: float | None = None,
) -> None:
    """Train until a limit of the configuration is reached or a stop is requested.

    `report_every_steps` is the interval of metric events in env steps, `save_every_steps` that of checkpoints if the
    configuration has none. `report_first` reports the first iteration regardless of the interval. With `report_gap_s`
    every iteration is reported, or, where they are shorter than that, as many together as take so long.
    """
    pace = report_every_steps or (default_pace(context) if report_gap_s is None else None)
    reported_s = perf_counter()
    evaluation_pace = context.config.evaluation.every_steps
    progress = training.progress()
    reported_at, busy_s, evaluated_at = progress.env_steps, 0.0, None
    context.training_began_at = working_time()
    over = _is_over(context, training, progress)
    while not over:
        context.inbox.wait_while_paused(partial(_save, context, training))
        if context.inbox.stop_asked():
            break
        before, began_s = progress.env_steps, working_time()
        with context.iteration():
            training.iterate()
        busy_s += working_time() - began_s
        progress = training.progress()
        over = _is_over(context, training, progress)
        ends_stage = not over and context.stage_is_over(progress.env_steps, progress.reward)
        spaced = report_gap_s is not None and perf_counter() - reported_s >= report_gap_s
        due = bool(report_first or over or ends_stage or spaced or is_due(before, progress.env_steps, pace))
        if due or context.report_due():
            speed = (progress.env_steps - reported_at) / busy_s if busy_s else 0.0
            trigger = {} if due else {"trigger": "clock"}
            context.report(**training.metrics(), **trigger, kind="iteration", env_steps_per_s=speed)
            reported_at, busy_s, report_first, reported_s = progress.env_steps, 0.0, False, perf_counter()
        if context.checkpoint_due(progress.env_steps, save_every_steps):
            _save(context, training)
        if is_due(before, progress.env_steps, evaluation_pace):
            _evaluate(context, training, progress.env_steps)
            evaluated_at = progress.env_steps
        if ends_stage:
            with context.next_stage(progress.env_steps) as environment:
                _change_env(training, environment)
            progress, evaluated_at = training.progress(), None
    if context.config.checkpoint.at_end and not context.has_checkpoint_at(progress.env_steps):
        training.save()
    context.training_ended_at = working_time()
    if not context.inbox.stop_asked() and evaluated_at != progress.env_steps:
        _evaluate(context, training, progress.env_steps)


def _is_over(context: WorkerContext, training: Trainable, progress: Progress) -> bool:
    if isinstance(training, Finishes) and (reason := training.finished()):
        print(f"Training is over: {reason}.", flush=True)
        return True
    return context.done(*progress) is not None


def _change_env(training: Trainable, environment: EnvironmentConfig) -> None:
    if not isinstance(training, ChangesEnv):
        raise MosaicError(
            f"This worker declares a curriculum, and {type(training).__name__} has no change_env(environment)."
        )
    training.change_env(environment)


def is_due(before: int, now: int, every_steps: int | None) -> bool:
    """Return whether a multiple of `every_steps` was passed.

    A run that was stopped and resumed passes it at the same env steps.
    """
    return every_steps is not None and now // every_steps > before // every_steps


def default_pace(context: WorkerContext) -> int:
    """Return the interval of metric events in env steps that gives about two hundred of them."""
    return max(1, (context.config.training.total_timesteps or DEFAULT_TIMESTEPS) // _REPORTS)


def _save(context: WorkerContext, training: Trainable) -> None:
    """Write a checkpoint, unless the last one is of this step: it would be the same."""
    env_steps = training.progress().env_steps
    if context.has_checkpoint_at(env_steps):
        context.report(kind="checkpoint_exists", env_steps=env_steps, path=str(env_steps))
    else:
        training.save()


def _evaluate(context: WorkerContext, training: Trainable, env_steps: int) -> None:
    for record in training.evaluate():
        context.report(kind="evaluation", env_steps=env_steps, **record)
