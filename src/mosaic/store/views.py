"""Read models of runs and live sessions, built from their folders.

The HTTP API returns them and the local command line prints them, so both show the same.
"""

from __future__ import annotations

import json
import os
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from mosaic.store.checkpoints import best_first, list_checkpoints
from mosaic.store.errors import DamagedError
from mosaic.store.index.summary import RunSummary, headline, last_evaluation, last_metrics, start_message
from mosaic.store.labels import read_labels
from mosaic.store.logs import Stream, WorkerLog
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State, read_state
from mosaic.store.usage import read_usage
from mosaic.telemetry.events.journal import last_whole
from mosaic.telemetry.frames.sources import list_sources

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mosaic.store.store import Store
    from mosaic.telemetry.curves.curves import Axis


_BEGINNING = (State.STARTING, State.RUNNING)  # a worker that starts Ray is a run that is running
_STAGE = "curriculum/stage"  # of events where a stage begins


class ReadModel(BaseModel):
    model_config = ConfigDict(frozen=True)


class LabelledRun(ReadModel):
    run_id: str
    name: str = ""
    tags: tuple[str, ...] = ()
    note: str = ""
    hidden: bool = Field(False, description="Whether lists of runs leave it out.")


class RunRow(LabelledRun):
    """One row of the list of runs."""

    state: State
    env: str
    worker: str | None = None
    algorithm: str | None = None
    env_steps: int | None = None
    episode_reward_mean: float | None = None
    started: float | None = None
    ended: float | None = None
    target_steps: int | None = Field(None, description="Env steps after which it ends.")
    measure: str = Field(
        "", description="Metric that measures the quality of its policies; in self-play not the return."
    )
    score: float | None = Field(None, description="Last value of that metric.")
    group: str | None = None
    seed: int | None = None
    project: str = ""


class UnreadableRun(ReadModel):
    """A run whose files are damaged or missing."""

    run_id: str
    reason: str


class CheckpointRow(ReadModel):
    env_steps: int
    path: str
    best: bool = False
    best_by: str = Field("reward", description="Measure by which the best one is chosen: reward, rating or env_steps.")
    reward: float | None = None
    rating: float | None = None
    policies: tuple[str, ...] = ()


class AttemptRow(ReadModel):
    number: int
    started: float | None = None
    ended: float | None = None
    exit: int | None = None
    reason: str = ""
    forced: bool = Field(False, description="It did not stop by itself and was killed: nothing new was saved.")


class StageRow(ReadModel):
    """A stage of a run's curriculum."""

    stage: int = Field(description="Counted from 1.")
    options: dict[str, Any] = Field(description="Options of the env that it sets.")
    env_steps: int | None = Field(description="Where it began; None where the run has not reached it.")


class StartRow(ReadModel):
    """Phase of a run's start before its first samples: starting Ray, building the algorithm, compiling."""

    message: str
    began: float | None = Field(None, description="In seconds since 1970; null where the message counts the seconds.")

    def text(self, now: float) -> str:
        return self.message if self.began is None else f"{self.message} … {max(0.0, now - self.began):.0f} s"


class RunDetails(LabelledRun):
    state: State
    queued_at: float
    attempts: tuple[AttemptRow, ...]
    config: dict[str, Any]
    env_steps: int | None
    last_metric: dict[str, Any] | None = Field(description="The newest event that counts.")
    last_evaluation: tuple[dict[str, Any], ...] = Field(
        (), description="Events of the newest evaluation, one per opponent."
    )
    measure: str = Field(
        "", description="Metric that measures the quality of its policies; in self-play not the return."
    )
    score: float | None = Field(None, description="Last value of that metric.")
    last_seq: int = Field(description="Of the newest stored event; 0 where there is none.")
    checkpoints: tuple[CheckpointRow, ...]
    exit: int | None
    reason: str = Field("", description="Why the last attempt ended.")
    sources: tuple[str, ...] = Field(
        (), description="Sources of pictures that can be watched now; empty where the run has one picture, or none."
    )
    stages: tuple[StageRow, ...] = Field((), description="Stages of its curriculum, if it has one.")
    start: StartRow | None = Field(None, description="What its start is doing; null once it has sampled.")


class CurvePoints(ReadModel):
    """Buckets of a curve: position, and the least, greatest and mean value of each."""

    metric: str
    x_name: str
    x: list[float]
    low: list[float | None]
    high: list[float | None]
    mean: list[float | None]


class UsagePoints(ReadModel):
    """Resources used by the processes of a run over time."""

    timestamp: list[float]
    cores: list[float] = Field(description="Mean number of busy cores since the sample before.")
    memory_mb: list[float]
    gpu_percent: list[float | None] = Field(description="How busy the GPUs of the machine were; null without any.")
    gpu_memory_mb: list[float | None] = Field(description="Used on all GPUs of the machine together.")


class LogPart(ReadModel):
    text: str
    start: int = Field(description="Byte of the log at which the text begins.")
    end: int = Field(description="Byte after its last one; ask with after = this for what comes next.")


class LiveRow(ReadModel):
    """An activity that is played now, or a run whose pictures come from several sources."""

    id: str
    kind: str = Field(description="evaluate, tournament, play, match or run.")
    env: str
    policies: dict[str, str] = Field(description="Agent or pattern → policy.")
    began: float = Field(description="In seconds since 1970.")
    sources: tuple[str, ...] = Field((), description="Sources of a run's pictures: env-runner-1, …, evaluation.")


def row_of(summary: RunSummary) -> RunRow:
    return RunRow.model_validate(summary, from_attributes=True)


def unreadable_runs(store: Store) -> list[UnreadableRun]:
    """Return the runs that lists leave out, because their files are damaged or missing."""
    return [UnreadableRun(run_id=run_id, reason=reason) for run_id, reason in store.index.unreadable().items()]


def details_of(folder: RunFolder) -> RunDetails:
    state = read_state(folder)
    metrics = last_metrics(folder.metrics)
    checkpoints = list_checkpoints(folder)
    best = {checkpoint.path for checkpoint in best_first(checkpoints)[:1]}
    config, labels = _config(folder), read_labels(folder)
    attempts = tuple(AttemptRow.model_validate(attempt, from_attributes=True) for attempt in state.attempts)
    measure, score = headline(folder.metrics, metrics, self_play=config.get("policy_configuration") == "self_play")
    return RunDetails(
        run_id=folder.run_id,
        name=str(config.get("name") or "") if labels.name is None else labels.name,
        tags=tuple(config.get("tags") or ()) if labels.tags is None else labels.tags,
        note=labels.note or "",
        hidden=bool(labels.hidden),
        state=state.state,
        queued_at=state.queued_at,
        attempts=attempts,
        config=config,
        env_steps=metrics.env_steps,
        last_metric=dict(metrics.event) or None,
        last_evaluation=tuple(dict(event) for event in last_evaluation(folder.metrics)),
        measure=measure,
        score=score,
        last_seq=last_seq(folder),
        checkpoints=tuple(
            CheckpointRow(
                env_steps=c.env_steps,
                path=str(c.path),
                best=c.path in best,
                best_by=c.manifest.best_by,
                reward=c.reward,
                rating=c.manifest.rating,
                policies=tuple(c.manifest.policies),
            )
            for c in checkpoints
        ),
        exit=attempts[-1].exit if attempts else None,
        reason=attempts[-1].reason if attempts else "",
        sources=list_sources(folder.path),
        stages=_stages(folder, config),
        start=_start(folder) if state.state in _BEGINNING else None,
    )


def _start(folder: RunFolder) -> StartRow | None:
    found = start_message(folder.metrics)
    return None if found is None else StartRow(message=found[0], began=found[1])


def _stages(folder: RunFolder, config: dict[str, Any]) -> tuple[StageRow, ...]:
    configured = (config.get("environment") or {}).get("curriculum") or ()
    if not configured:
        return ()
    from mosaic.telemetry.curves.curves import Curves

    begun, curves = {1: 0}, Curves(folder.path)
    if curves.has(_STAGE):  # the first stage has no event
        reached = curves.query(_STAGE, "env_steps", len(configured))
        begun |= {int(stage): int(x) for x, stage in zip(reached.x, reached.mean, strict=True)}
    return tuple(
        StageRow(stage=number, options=stage.get("options") or {}, env_steps=begun.get(number))
        for number, stage in enumerate(configured, 1)
    )


def _config(folder: RunFolder) -> dict[str, Any]:
    """Return the configuration as it was written, by any version of Mosaic."""
    try:
        document = json.loads(folder.config.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise DamagedError(f"'{folder.config}' is damaged: {error}.") from error
    if not isinstance(document, dict):
        raise DamagedError(f"'{folder.config}' is damaged: it is not a JSON object.")
    return document


def usage_of(folder: RunFolder) -> UsagePoints:
    samples = read_usage(folder)
    return UsagePoints(
        timestamp=[sample.timestamp for sample in samples],
        cores=[sample.cores for sample in samples],
        memory_mb=[sample.memory_mb for sample in samples],
        gpu_percent=[sample.gpu_percent for sample in samples],
        gpu_memory_mb=[sample.gpu_memory_mb for sample in samples],
    )


def log_part(folder: RunFolder, stream: Stream, after: int | None, size: int) -> LogPart:
    part = WorkerLog(folder, stream).read(after, size)
    text, end = part.text()
    return LogPart(text=text, start=part.start, end=end)


def last_seq(folder: RunFolder) -> int:
    try:
        descriptor = os.open(folder.metrics, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        return last_whole(descriptor).seq
    finally:
        os.close(descriptor)


def live_rows(home: Path) -> list[LiveRow]:
    """Return the live activities, newest first."""
    from mosaic.store.live_sessions import list_sessions  # imports numba

    rows = []
    for session in list_sessions(home):
        about = session.about()
        if about is not None:  # it may have ended in between
            row = LiveRow(
                id=session.id, kind=about.kind, env=about.env, policies=dict(about.policies), began=about.began
            )
            rows.append(row)
    return rows


def running_rows(store: Store) -> list[LiveRow]:
    """Return the running runs that can be watched by source, newest first."""
    rows = []
    for run in store.index.list(states=(State.RUNNING,)):
        sources = list_sources(store.runs / run.run_id)
        if sources:
            row = LiveRow(
                id=run.run_id, kind="run", env=run.env, policies={}, began=run.started or run.queued_at, sources=sources
            )
            rows.append(row)
    return rows


def curve_of(
    folder: RunFolder,
    metric: str,
    x: Axis = "env_steps",
    *,
    buckets: int = 500,
    start: float | None = None,
    stop: float | None = None,
) -> CurvePoints:
    from mosaic.telemetry.curves.curves import Curves  # listing runs does without it

    found = Curves(folder.path).query(metric, x, buckets, start, stop)
    low, high, mean = map(_numbers, (found.low, found.high, found.mean))
    return CurvePoints(metric=metric, x_name=x, x=found.x.tolist(), low=low, high=high, mean=mean)


def _numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Replace NaN, which JSON does not have, by None."""
    return [value if isfinite(value) else None for value in values.tolist()]
