"""Sinks of tracking services, where a resumed run continues the same remote run.

Events cannot be deleted from a service. The last event sent is recorded in the run's folder after each, and the next
session sends the events that follow: after a resume, steps that are trained again appear a second time. What a
service's own client has not stored yet is lost with a process that is killed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from mosaic.core.files import replace_file
from mosaic.telemetry.events.event import AXES, MetricEvent, is_number
from mosaic.telemetry.sinks.base import finite_numbers

PROJECT = "mosaic"  # where the service's own environment variable names none
_COUNTERS = tuple(axis for axis in AXES if axis not in ("seq", "timestamp"))


@dataclass(frozen=True, slots=True)
class TrackedRun:
    """Description of a run that is sent to a service when the sink opens."""

    run_id: str
    name: str
    tags: tuple[str, ...]
    config: dict[str, object]
    folder: Path

    @classmethod
    def read(cls, folder: Path) -> TrackedRun:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        run_id = folder.name
        return cls(run_id, config.get("name") or run_id, tuple(config.get("tags", ())), config, folder)

    def flat_config(self) -> dict[str, str]:
        """Return the configuration as one text per setting, by its path."""
        return dict(_flatten(self.config))


class Tracker(Protocol):
    """Connection to a tracking service, for one run."""

    def log(self, numbers: dict[str, float], event: MetricEvent, /) -> None: ...

    def finish(self) -> None: ...


class TrackingSink:
    """Sink that sends each event once, in this session or an earlier one."""

    def __init__(self, name: str, run_folder: Path, tracker: Tracker) -> None:
        self._tracker = tracker
        self._path = run_folder / f"{name}.sink.json"
        self._sent = _read_sent(self._path)

    def write(self, event: MetricEvent, /) -> None:
        if event["seq"] <= self._sent:
            return
        numbers = finite_numbers(event)
        if numbers:
            counters = {name: float(value) for name in _COUNTERS if is_number(value := event.get(name))}
            self._tracker.log({**counters, **numbers}, event)
        self._sent = event["seq"]
        text = json.dumps({"sent": self._sent}) + "\n"
        replace_file(self._path, lambda path: path.write_text(text), self._path.with_suffix(".new"))

    def close(self) -> None:
        self._tracker.finish()


def _read_sent(path: Path) -> int:
    try:
        return int(json.loads(path.read_text())["sent"])
    except FileNotFoundError:
        return 0


def _flatten(value: object, path: str = "") -> list[tuple[str, str]]:
    if isinstance(value, dict) and value:
        return [pair for key, inner in value.items() for pair in _flatten(inner, f"{path}.{key}" if path else str(key))]
    return [(path, value if isinstance(value, str) else json.dumps(value))]
