"""Runs of one trial: started or resumed, followed, saved, ended. Independent of Ray."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError, unknown
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.plan import SearchPlan
from mosaic.store.archives.trust import require_trust, trust_given
from mosaic.store.checkpoint_record import damage, read_checkpoint
from mosaic.store.checkpoints import Checkpoint, CheckpointContents, find_checkpoint, write_checkpoint
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import LIVE, State
from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.events.reader import visible
from mosaic.workers.registry import load_worker


def fork(trainer: Trainer, config: RunConfig, checkpoint: Path, group: str) -> Run:
    """Create a run that continues from a checkpoint, without starting it.

    Counters continue from the checkpoint's; metrics begin with the new run.
    """
    source = read_checkpoint(checkpoint)
    problem = damage(source)
    if problem:
        raise MosaicError(f"No run can continue from the checkpoint in {checkpoint}: {problem}.")
    if not source.sealed_by(trainer.store):
        require_trust(source, trust_given())  # the copy will carry this store's seal
    run = trainer.submit(config, start=False, group=group)
    manifest = source.manifest

    def copy(folder: Path) -> None:
        for name in manifest.files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(checkpoint / name, folder / name)

    # Its events come before everything that the new run will report.
    write_checkpoint(run.folder, CheckpointContents.of(manifest, seq=0), copy)
    return run


_SOURCE, _CHECKPOINT = "source.json", "checkpoint"
_SAVE_WITHIN_S = 600.0  # a worker saves at the end of its iteration


class TrialError(MosaicError):
    """Error for a trial that has no result."""


class TrialReport(NamedTuple):
    score: float
    env_steps: int
    run_id: str
    done: bool


class TrialRuns:
    """Runs of a trial: one, or a sequence if it continues from another trial's checkpoint with other options."""

    def __init__(self, trainer: Trainer, plan: SearchPlan, number: int, options: Mapping[str, object]) -> None:
        self._trainer, self._plan, self._number = trainer, plan, number
        self._params = {**plan.config.training.params, **options}
        self._run: Run | None = None
        self._events: Iterator[MetricEvent] = iter(())
        self._known = 0  # env steps up to which everything was reported in an earlier session or turn
        self._due = plan.report_every_steps
        self._last: tuple[float, int] | None = None
        self._names: set[str] = set()  # of what the run reported instead of the metric

    def next(self) -> TrialReport:
        """Wait for the next report; the first call starts or resumes the run."""
        run = self._run or self._follow(self._adopt(self._run_id(1)) or self._new(None))
        for event in self._events:
            if event["kind"] == "resumed":
                start = max(self._known, int(event.get("from_env_steps") or 0))
                self._due = start + self._plan.report_every_steps
            if event["kind"] != "iteration" or event.get("trigger") == "clock" or not self._take(event):
                continue
            score, env_steps = self._last or (math.nan, 0)
            if self._due <= env_steps < self._plan.steps:  # the last report is the run's end, which may take a while
                self._due = env_steps + self._plan.report_every_steps
                return TrialReport(score, env_steps, run.id, done=False)
        return self._final(run)

    def save(self, folder: Path) -> None:
        """Copy the newest complete state of the run, so that the run's own cleanup cannot delete it."""
        assert self._run is not None, "a trial is saved after it has reported"
        run = self._run
        if run.state in LIVE:
            try:
                run.checkpoint(_SAVE_WITHIN_S)
            except MosaicError:
                if run.state in LIVE:
                    raise  # else it ended meanwhile, and saved at its end
        checkpoint = _copy_newest(run.folder, folder / _CHECKPOINT)
        problem = damage(read_checkpoint(folder / _CHECKPOINT))
        if problem:
            raise TrialError(f"The checkpoint of the run {run.id} could not be copied: {problem}.")
        source = {"run_id": run.id, "env_steps": checkpoint.env_steps, "score": self._score_at(checkpoint.env_steps)}
        (folder / _SOURCE).write_text(json.dumps(source))

    def restore(self, folder: Path) -> None:
        """Continue from what `save` of this or another trial wrote. Needs the folder only until it returns."""
        source = json.loads((folder / _SOURCE).read_text())
        self._known = int(source["env_steps"])
        self._due = self._known + self._plan.report_every_steps
        if self._known >= self._plan.steps and source.get("score") is not None:
            self._last = source["score"], self._known  # the copy has nothing left to train or report itself
        self._follow(self._adopt(source["run_id"]) or self._new(folder / _CHECKPOINT))

    def end(self, reason: str) -> None:
        """Stop and save the run if it is alive."""
        if self._run is not None and self._run.state in LIVE:
            self._run.stop(reason=reason)

    # Internals

    def _take(self, event: MetricEvent) -> bool:
        """Record the metric if the event contains it, and return whether it does."""
        value, env_steps = value_at(event, self._plan.settings.metric), event.get("env_steps")
        if value is None or env_steps is None:
            self._names |= set(numbers_in(event))
            return False
        self._last = value, int(env_steps)
        return True

    def _score_at(self, env_steps: int) -> float | None:
        """Return the score of what is saved: a fast run is ahead of its reports, or, as another's copy, reports
        nothing.
        """
        assert self._run is not None
        score = self._last[0] if self._last else None
        for event in visible(self._run.events()):
            if event["kind"] != "iteration" or event.get("trigger") == "clock":
                continue
            if int(event.get("env_steps") or 0) <= env_steps:
                value = value_at(event, self._plan.settings.metric)
                score = score if value is None else value
        return score

    def _final(self, run: Run) -> TrialReport:
        state = run.wait()
        if state in (State.FAILED, State.LOST):
            raise TrialError(f"The run {run.id} {state}: {run.reason or 'see its log'}")
        if self._last is None and not self._names:
            raise TrialError(
                f"The run {run.id} ended before it had trained at all: see its log: mosaic runs log {run.id}"
            )
        if self._last is None:
            raise TrialError(
                f"The run {run.id} ended without a value. {unknown('metric', self._plan.settings.metric, self._names)}"
            )
        return TrialReport(*self._last, run.id, done=True)

    def _follow(self, run: Run) -> Run:
        self._run, self._events = run, run.events(follow=True)
        return run

    def _adopt(self, run_id: str) -> Run | None:
        """Return a run of this same trial that an earlier session left, if it can be resumed."""
        folder = self._trainer.store.folder(run_id)
        if not self._is_own(run_id) or not folder.exists():
            return None
        run = self._trainer.run(run_id)
        stored = run.config.training.params  # with every other option filled in
        if any(name not in stored or stored[name] != value for name, value in self._params.items()):
            return None
        match run.state:
            case State.QUEUED:
                run.start()
            case State.STOPPED | State.FAILED | State.LOST:
                if not load_worker(str(run.config.training.worker)).info.resume:
                    return None
                run.resume()
            case _:
                pass
        return run

    def _new(self, checkpoint: Path | None) -> Run:
        part = 1
        while self._trainer.store.folder(self._run_id(part)).exists():
            part += 1
        config, group = self._config(self._run_id(part)), self._plan.search_id
        if checkpoint is None:
            run = self._trainer.submit(config, start=False, group=group)
        else:
            run = fork(self._trainer, config, checkpoint, group)
        run.start()
        return run

    def _run_id(self, part: int) -> str:
        first = f"{self._plan.search_id}-{self._number:02}"
        return first if part == 1 else f"{first}-{part}"

    def _is_own(self, run_id: str) -> bool:
        first = self._run_id(1)
        return run_id == first or run_id.startswith(f"{first}-")

    def _config(self, run_id: str) -> RunConfig:
        document = dump_run_config(self._plan.config)
        document["training"]["params"] = self._params
        tags = [*document["tags"], self._plan.search_id]
        return parse_run_config({**document, "run_id": run_id, "name": "", "tags": tags})


def _copy_newest(run: RunFolder, target: Path) -> Checkpoint:
    """Copy the newest checkpoint; a run that saves often may delete it meanwhile, and then there is a newer one."""
    while True:
        checkpoint = find_checkpoint(run)
        try:
            shutil.copytree(checkpoint.path, target)
        except (shutil.Error, FileNotFoundError):
            if checkpoint.path.exists():
                raise
            shutil.rmtree(target, ignore_errors=True)
        else:
            return checkpoint


def value_at(event: Mapping[str, object], path: str) -> float | None:
    """Return a number inside an event, such as `policies.red.reward_mean`, or None if there is none yet."""
    value: object = event
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, int | float) and math.isfinite(value) else None


def numbers_in(event: Mapping[str, object], above: str = "") -> Iterator[str]:
    """Yield the paths of all numbers that an event holds."""
    for name, value in event.items():
        path = f"{above}{name}"
        if isinstance(value, Mapping):
            yield from numbers_in(value, f"{path}.")
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield path
