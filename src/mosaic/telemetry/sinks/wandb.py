"""Weights & Biases sink: a run of the project $WANDB_PROJECT, with env_steps as x and the run's id as its own.

Account, project and mode come from W&B's own environment variables; `WANDB_MODE=offline` writes to the run's folder.
"""

from __future__ import annotations

import os
from pathlib import Path

import wandb

from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.sinks.tracking import PROJECT, TrackedRun, TrackingSink


def open_sink(run_folder: Path) -> TrackingSink:
    return TrackingSink("wandb", run_folder, WandbTracker(TrackedRun.read(run_folder)))


class WandbTracker:
    """Run of W&B. Its own step is the event's seq, which never goes back when a run is resumed."""

    def __init__(self, run: TrackedRun) -> None:
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            id=run.run_id,
            name=run.name,
            tags=run.tags,
            config=run.config,
            dir=str(run.folder),
            resume="allow",
            settings=wandb.Settings(console="off", silent=True),
        )
        self._run.define_metric("*", step_metric="env_steps")

    def log(self, numbers: dict[str, float], event: MetricEvent, /) -> None:
        self._run.log(numbers, step=event["seq"])

    def finish(self) -> None:
        self._run.finish()
