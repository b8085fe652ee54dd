"""Trackio sink: a run of the project $TRACKIO_PROJECT, with env_steps as step.

Trackio stores it on this machine, or where its own environment variables say.
"""

from __future__ import annotations

import os
from pathlib import Path

import trackio

from mosaic.telemetry.events.event import MetricEvent, is_number
from mosaic.telemetry.sinks.tracking import PROJECT, TrackedRun, TrackingSink


def open_sink(run_folder: Path) -> TrackingSink:
    return TrackingSink("trackio", run_folder, TrackioTracker(TrackedRun.read(run_folder)))


class TrackioTracker:
    """Run of Trackio, found again by its name, which therefore contains the run's id."""

    def __init__(self, run: TrackedRun) -> None:
        self._run = trackio.init(
            project=os.environ.get("TRACKIO_PROJECT", PROJECT),
            name=run.run_id if run.name == run.run_id else f"{run.name} {run.run_id}",
            config=run.config,
            resume="allow",
            embed=False,
            auto_log_gpu=False,
            auto_log_cpu=False,
        )

    def log(self, numbers: dict[str, float], event: MetricEvent, /) -> None:
        steps = event.get("env_steps")
        self._run.log(numbers, step=int(steps) if is_number(steps) else None)

    def finish(self) -> None:
        self._run.finish()
