"""Progress of a run: steps done, speed, time left, and how its time is spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

from mosaic.store.state import State
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.event import TimeSplit


class Iteration(TypedDict, total=False):
    """Fields of an iteration event that pages show; none where a run has no iteration yet."""

    kind: str
    trigger: str  # "clock" if it was reported within an iteration
    episodes_total: int | None
    env_steps_per_s: float | None
    episode_reward_mean: float | None
    episode_reward_min: float | None
    episode_reward_max: float | None
    time_split: TimeSplit


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


def queue_words(run_id: str, queue: Mapping[str, str]) -> str:
    """Return a queued run's place, and why it waits; `queue` has the reasons of all, in the order of their starts."""
    return f"Number {[*queue].index(run_id) + 1} in the queue. {queue[run_id]}".rstrip() if run_id in queue else ""


def progress_of(details: RunDetails, iteration: Iteration) -> RunProgress:
    """Return the run's progress; `iteration` is its newest iteration event."""
    training = details.config.get("training") or {}
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


def time_spent(iteration: Iteration) -> dict[str, float]:
    """Return seconds since the previous event by what they were spent on; empty where the worker does not report it."""
    split: TimeSplit = iteration.get("time_split") or {}
    found = {"env": split.get("env"), "inference": split.get("inference"), "learning": split.get("learning")}
    return {name: float(value) for name, value in found.items() if value}


def time_shares(iteration: Iteration) -> dict[str, float]:
    """Return the share of each kind of time in percent."""
    seconds = time_spent(iteration)
    whole = sum(seconds.values())
    return {name: 100 * value / whole for name, value in seconds.items()} if whole else {}
