"""Progress of a run: steps done, speed, time left, and how its time is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mosaic.store.state import State
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.event import TimeSplit


@dataclass(frozen=True, slots=True)
class RunProgress:
    done: int
    target: int | None
    unit: str
    steps_per_s: float | None
    left_s: float | None  # None where it is unknown

    @property
    def share(self) -> float | None:
        return None if not self.target else min(1.0, self.done / self.target)


def progress_of(details: RunDetails, iteration: Mapping[str, Any]) -> RunProgress:
    """Return the run's progress; `iteration` is its newest iteration event."""
    training: Mapping[str, Any] = details.config.get("training") or {}
    speed = iteration.get("env_steps_per_s")
    steps = details.env_steps or 0
    target, episodes = training.get("total_timesteps"), training.get("episodes")
    left = None
    if details.state is State.RUNNING and speed and target:
        left = max(0, target - steps) / speed
    if target is None and episodes is not None:
        return RunProgress(iteration.get("episodes_total") or 0, episodes, "episodes", speed, None)
    return RunProgress(steps, target, "env steps", speed, left)


def wall_s(details: RunDetails, now: float) -> float:
    """Return how long the run has run in all its attempts, without the pauses between them."""
    return sum((each.ended or now) - each.started for each in details.attempts if each.started is not None)


def time_spent(iteration: Mapping[str, Any]) -> dict[str, float]:
    """Return seconds since the previous event by what they were spent on; empty where the worker does not report it."""
    split = iteration.get("time_split") or {}
    return {name: float(split[name]) for name in TimeSplit.__annotations__ if split.get(name)}


def time_shares(iteration: Mapping[str, Any]) -> dict[str, float]:
    """Return the share of each kind of time in percent."""
    seconds = time_spent(iteration)
    whole = sum(seconds.values())
    return {name: 100 * value / whole for name, value in seconds.items()} if whole else {}
