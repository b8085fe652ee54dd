"""Alerts about a run: it failed, fell silent or stalled, has invalid numbers, collapsed, or has stopped improving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mosaic.store.state import State
from mosaic.ui.web.components.theme import count, duration, number

SILENT_S = 60.0
_LEAST_POINTS = 40  # with fewer, a plateau cannot be told from a slow start
_GAIN = 0.02  # as a share of the curve's range
_MOST_REPORTED = 5
_SOME_ENTROPY, _LOW = 0.05, 0.01  # a policy that had some entropy, and has a hundredth of it left
STALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Alert:
    level: Literal["bad", "warn"]
    text: str
    advice: str


def end_alerts(state: State, run_id: str, reason: str) -> list[Alert]:
    match state:
        case State.FAILED:
            said = f"The worker failed: {reason}" if reason else "The worker failed"
            return [Alert("bad", said, "Read the end of the log, then resume it from its last checkpoint.")]
        case State.LOST:
            said = "The processes of this run are gone"
            return [Alert("bad", said, f"Resume it here, or type: mosaic runs resume {run_id}")]
        case _:
            return []


def silence_alert(state: State, last_heard: float | None, now: float, usual_s: float = 0.0) -> list[Alert]:
    """Return an alert if a running run has been silent for SILENT_S and for three iterations of `usual_s` each."""
    if state is not State.RUNNING or last_heard is None or now - last_heard < max(SILENT_S, 3 * usual_s):
        return []
    said = f"The worker has not reported for {duration(now - last_heard)}"
    return [Alert("warn", said, "It may be in a long update. If the log has stopped too, stop and resume it.")]


class EventWatch:
    """Facts for alerts, collected from all events of a run in order; they stay true after its end."""

    def __init__(self) -> None:
        self.reported: list[str] = []  # by the worker, the newest last
        self._forget()

    def _forget(self) -> None:
        self._broken: list[str] = []  # learner numbers of the newest iteration that are not numbers
        self._broken_at: int | None = None  # env steps where that began
        self._entropies: dict[str, tuple[float, float]] = {}  # of each policy: the greatest, the last
        self._steps, self._moved = 0, 0.0  # newest env steps, and when they were reached
        self._stall: tuple[float, int] = (0.0, 0)  # the longest time without new env steps, and where

    def take(self, event: Mapping[str, Any]) -> None:
        match event.get("kind"):
            case "alert":
                self.reported = [*self.reported, str(event.get("message", ""))][-_MOST_REPORTED:]
            case "resumed":
                self._forget()  # what an earlier attempt did after that point was undone
            case "iteration":
                self._take_steps(int(event.get("env_steps") or 0), float(event.get("timestamp") or 0.0))
                self._take_learners(event)
            case "checkpoint" | "evaluation":  # these take time without any step
                self._moved = float(event.get("timestamp") or 0.0)

    def _take_steps(self, steps: int, when: float) -> None:
        if steps > self._steps or not self._steps:
            self._steps, self._moved = steps, when
        elif self._moved and when - self._moved > self._stall[0]:
            self._stall = when - self._moved, steps

    def _take_learners(self, event: Mapping[str, Any]) -> None:
        learners = {name: said.get("learner") or {} for name, said in (event.get("policies") or {}).items()}
        if not any(learners.values()):
            return  # a report between two updates
        broken = [
            f"{measure.replace('_', ' ')} of {policy}"
            for policy, said in learners.items()
            for measure, value in said.items()
            if value is None
        ]
        if broken and self._broken_at is None:
            self._broken_at = event.get("env_steps")
        self._broken = broken
        for policy, said in learners.items():
            if isinstance(value := said.get("entropy"), int | float):
                self._entropies[policy] = max(value, self._entropies.get(policy, (value, value))[0]), value

    def alerts(self) -> list[Alert]:
        return [*self._number_alerts(), *self._entropy_alerts(), *self._stall_alerts()]

    def _number_alerts(self) -> list[Alert]:
        advice = "Lower the learning rate or clip gradients, and resume from a checkpoint before it."
        since = f" since {count(self._broken_at)} env steps" if self._broken_at else ""
        if self._broken:
            named = ", ".join(self._broken[:3])
            verb = "is not a number" if len(self._broken) == 1 else "are not numbers"
            return [Alert("bad", f"{named[:1].upper()}{named[1:]} {verb}{since}", advice)]
        if self._broken_at is not None:
            return [
                Alert("warn", f"Metrics of the learner were not finite at {count(self._broken_at)} env steps", advice)
            ]
        return []

    def _entropy_alerts(self) -> list[Alert]:
        gone = [
            name for name, (most, now) in self._entropies.items() if most > _SOME_ENTROPY and 0 <= now < _LOW * most
        ]
        if not gone:
            return []
        said = f"The entropy of {', '.join(gone[:3])} is almost 0: it no longer explores"
        return [Alert("warn", said, "If its return is not good enough yet, train again with a larger ent_coef.")]

    def _stall_alerts(self) -> list[Alert]:
        seconds, steps = self._stall
        if seconds < STALL_S:
            return []
        said = f"No env step was taken for {duration(seconds)} at {count(steps)} env steps"
        return [Alert("warn", said, "The env or an opponent may be stuck. See the log.")]


def collapse_alert(x: Sequence[float], mean: Sequence[float | None]) -> list[Alert]:
    """Return an alert if the return has lost half of what it had gained, in windows of a tenth of the curve."""
    points = [(at, value) for at, value in zip(x, mean, strict=True) if value is not None]
    if len(points) < _LEAST_POINTS:
        return []
    size = len(points) // 10
    means = [_mean([value for _, value in points[i : i + size]]) for i in range(len(points) - size + 1)]
    best, last = max(means), means[-1]
    noise = _mean([abs(value - means[min(i, len(means) - 1)]) for i, (_, value) in enumerate(points)])
    if best - last < max(0.5 * (best - min(means)), 2 * noise):
        return []
    at = points[means.index(best) + size // 2][0]
    said = f"The return fell from {number(best)} at {count(at)} env steps to {number(last)}"
    return [Alert("warn", said, "Use the best checkpoint, or train again with a smaller learning rate or clip range.")]


def plateau_alert(state: State, x: Sequence[float], mean: Sequence[float | None]) -> list[Alert]:
    """Return an alert if the last third of the curve gained nothing over the third before, relative to its range."""
    points = [(at, value) for at, value in zip(x, mean, strict=True) if value is not None]
    if state is not State.RUNNING or len(points) < _LEAST_POINTS:
        return []
    values = [value for _, value in points]
    third = len(values) // 3
    before, now = _mean(values[-2 * third : -third]), _mean(values[-third:])
    span = max(values) - min(values)
    if now - before > _GAIN * span:
        return []
    since = points[-1][0] - points[-third][0]
    advice = "It may have converged: evaluate it, and stop it if the result is good enough. Otherwise explore more."
    return [Alert("warn", f"The return has not improved for {count(since)} env steps", advice)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
