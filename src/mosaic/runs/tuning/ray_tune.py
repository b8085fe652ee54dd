"""Setup and driving of Ray Tune for a search. Imports Ray, so only import this module when a search begins."""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, assert_never

from ray import tune
from ray.tune import Trainable
from ray.tune.experiment import Trial
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, PopulationBasedTraining, TrialScheduler
from ray.tune.search.basic_variant import BasicVariantGenerator

from mosaic.core.child_process import restored
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.runs.tuning.plan import SearchPlan
from mosaic.runs.tuning.search import TrialStanding, TrialState, return_to
from mosaic.runs.tuning.search_space import Between, Domain, OneOf, Space, clamp
from mosaic.runs.tuning.trial import TrialRuns

SCORE, STEPS, RUN, ENDED = "score", "env_steps", "run_id", "ended"  # reported to Ray Tune
FOLDER, OPTIONS = "folder", "options"  # keys of a trial's configuration


def number_of(trial_id: str) -> int:
    """Return the trial's number: Ray Tune's `3f2a1_00004` is number 4, the fifth trial."""
    return int(trial_id.rpartition("_")[2]) + 1


class TrialFollower(Trainable):
    def setup(self, config: dict[str, Any]) -> None:
        folder = SearchFolder(Path(config[FOLDER]))
        self._plan = folder.read_plan()
        self._trainer = Trainer(folder.home)
        self._begin(config)

    def step(self) -> dict[str, object]:
        report = self._trial.next()
        facts = {SCORE: report.score, STEPS: report.env_steps, RUN: report.run_id}
        return {**facts, ENDED: report.done, "done": report.done}  # a scheduler that stops the trial sets `done` too

    def save_checkpoint(self, checkpoint_dir: str) -> None:
        self._trial.save(Path(checkpoint_dir))

    def load_checkpoint(self, checkpoint: Any) -> None:
        self._trial.restore(Path(checkpoint))

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        """Reuse the actor: for another trial, or for this one with other options."""
        self.cleanup()
        self._begin(new_config)
        return True

    def cleanup(self) -> None:
        self._trial.end(f"the search {self._plan.search_id} has no more use for it")

    def _begin(self, config: dict[str, Any]) -> None:
        return_to(self._plan.working_folder)  # every time: Ray Tune moves an actor that it reuses
        self._trial = TrialRuns(self._trainer, self._plan, number_of(self.trial_id), config[OPTIONS])


Watch = Callable[[Sequence[TrialStanding]], None]

_KEPT_CHECKPOINTS = 4  # per trial: another one may be about to copy an older one
_REDUCTION = 3  # asha: one trial in this many continues
_SETTINGS = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # runs keep their own metrics
    "TUNE_GLOBAL_CHECKPOINT_S": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_AIR_NEW_OUTPUT": "0",
}
_STATES: dict[str, TrialState] = {
    Trial.PENDING: "waiting",
    Trial.RUNNING: "running",
    Trial.PAUSED: "paused",
    Trial.TERMINATED: "done",
    Trial.ERROR: "failed",
}


def drive(folder: SearchFolder, plan: SearchPlan, watch: Watch) -> list[TrialStanding]:
    """Drive the search until every trial has ended or Ctrl-C was pressed; return the trials' standings."""
    board = _StandingsCallback(watch)
    with _settings(), _own_signals(), _quiet():
        tuner = _restored(folder, plan, board) or _fresh(folder, plan, board)
        tuner.fit()
    return board.standings


def _fresh(folder: SearchFolder, plan: SearchPlan, board: _StandingsCallback) -> tune.Tuner:
    space = plan.space()
    return tune.Tuner(
        _resourced(plan),
        param_space={
            FOLDER: str(folder.path),
            OPTIONS: {name: domain_of(domain) for name, domain in space.items()},
        },
        tune_config=tune.TuneConfig(
            num_samples=plan.settings.trials,
            metric=SCORE,
            mode=plan.settings.mode,
            scheduler=scheduler_of(plan, space),
            search_alg=BasicVariantGenerator(random_state=plan.config.seed),
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(
            name=folder.tune.name,
            storage_path=str(folder.path),
            verbose=0,
            callbacks=[board],
            checkpoint_config=tune.CheckpointConfig(num_to_keep=_KEPT_CHECKPOINTS, checkpoint_at_end=False),
        ),
    )


def _restored(folder: SearchFolder, plan: SearchPlan, board: _StandingsCallback) -> tune.Tuner | None:
    """Restore an earlier session. None: it did not get far enough, and its runs are found again by their ids."""
    _drop_torn(folder)
    if not tune.Tuner.can_restore(str(folder.tune)) or not list(folder.tune.glob("experiment_state-*.json")):
        return None
    tuner = tune.Tuner.restore(str(folder.tune), trainable=_resourced(plan), resume_errored=True)
    run_config = tuner._local_tuner.get_run_config()  # type: ignore[union-attr]  # there is no public way to it
    run_config.callbacks = [board]
    return tuner


def _drop_torn(folder: SearchFolder) -> None:
    """Delete a partial record: Ray Tune copies its record into place piece by piece, so a kill may leave half of it."""
    for record in folder.tune.glob("experiment_state-*.json"):
        try:
            json.loads(record.read_text())
        except ValueError:
            record.unlink()


def _resourced(plan: SearchPlan) -> Any:
    """Let N trials share Ray's single CPU: what they really use belongs to their runs."""
    return tune.with_resources(TrialFollower, {"cpu": math.floor(10_000 / plan.concurrent) / 10_000})


def domain_of(domain: Domain) -> Any:
    """Convert to the form that Ray Tune samples from."""
    match domain:
        case OneOf(values):
            return tune.choice(list(values))
        case Between(low, high, log=True, whole=True):
            return tune.lograndint(int(low), int(high) + 1)
        case Between(low, high, log=False, whole=True):
            return tune.randint(int(low), int(high) + 1)
        case Between(low, high, log=True):
            return tune.loguniform(low, high)
        case Between(low, high):
            return tune.uniform(low, high)
        case _:
            assert_never(domain)


def scheduler_of(plan: SearchPlan, space: Space) -> TrialScheduler:
    match plan.settings.scheduler:
        case "none":
            return FIFOScheduler()  # type: ignore[no-untyped-call]
        case "asha":
            return ASHAScheduler(
                time_attr=STEPS,
                max_t=max(plan.steps, plan.decision_steps + 1),
                grace_period=plan.decision_steps,
                reduction_factor=_REDUCTION,
            )
        case "pbt":
            return PopulationBasedTraining(
                time_attr=STEPS,
                perturbation_interval=plan.decision_steps,
                hyperparam_mutations={
                    OPTIONS: {
                        name: list(domain.values) if isinstance(domain, OneOf) else domain_of(domain)
                        for name, domain in space.items()
                    }
                },
                custom_explore_fn=_Within(space),
                log_config=False,
            )
        case other:
            assert_never(other)


class _Within:
    """Clamp that brings perturbed options back inside the search space."""

    def __init__(self, space: Space) -> None:
        self._space = space

    def __call__(self, config: dict[str, Any]) -> dict[str, Any]:
        options = {name: clamp(self._space[name], value) for name, value in config[OPTIONS].items()}
        return {**config, OPTIONS: options}


class _StandingsCallback(tune.Callback):
    """Callback that keeps the standings of all trials and reports changes."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.standings: list[TrialStanding] = []

    def on_step_end(self, iteration: int, trials: list[Trial], **info: object) -> None:
        self._look(trials)

    def on_experiment_end(self, trials: list[Trial], **info: object) -> None:
        """Report only a search that had nothing left to do: after Ctrl-C, trials that were cut short look ended."""
        if not self.standings:
            self._look(trials)

    def _look(self, trials: list[Trial]) -> None:
        standings = sorted((_standing(trial) for trial in trials), key=lambda standing: standing.trial)
        if standings != self.standings:
            self.standings = standings
            self._watch(standings)

    def __getstate__(self) -> dict[str, object]:
        """Drop the watcher: Ray Tune stores this with the search; a screen cannot be stored, and the next session has
        its own.
        """
        return {"_watch": None, "standings": []}


def _standing(trial: Trial) -> TrialStanding:
    result: Mapping[str, Any] = trial.last_result or {}
    return TrialStanding(
        number_of(trial.trial_id),
        "stopped" if trial.status == Trial.TERMINATED and not result.get(ENDED) else _STATES[trial.status],
        trial.config.get(OPTIONS, {}),
        result.get(SCORE),
        int(result.get(STEPS, 0)),
        result.get(RUN),
        _reason(trial) if trial.status == Trial.ERROR else "",
    )


def _reason(trial: Trial) -> str:
    """Return the last line of Ray's error, without the name of the exception's class.

    It is written in the session's folder first, and later copied to where `get_error` looks.
    """
    fresh = Path(trial.error_file) if trial.error_file else None
    told = fresh.read_text() if fresh and fresh.exists() else str(trial.get_error() or "its actor died")
    last = told.strip().splitlines()[-1]
    name, colon, rest = last.partition(": ")
    return rest if colon and "." in name and " " not in name else last


@contextmanager
def _settings() -> Iterator[None]:
    with restored(*_SETTINGS):
        os.environ.update(_SETTINGS)
        yield


@contextmanager
def _own_signals() -> Iterator[None]:
    """Restore signal handlers: Ray Tune takes over Ctrl-C to end cleanly, and keeps it afterwards."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGUSR1)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress Ray's warnings; our own screen says it better."""
    loggers = [logging.getLogger(name) for name in ("ray.tune", "ray.train", "ray.air")]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.setLevel(level)
