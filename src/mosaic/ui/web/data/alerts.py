"""Alerts about a run: it failed, fell silent, has invalid numbers, or has stopped improving."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mosaic.store.state import State
from mosaic.ui.web.components.theme import count, duration

SILENT_S = 60.0
_LEAST_POINTS = 40  # with fewer, a plateau cannot be told from a slow start
_GAIN = 0.02  # as a share of the curve's range


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


def number_alerts(event: Mapping[str, Any] | None) -> list[Alert]:
    """Return an alert if learner numbers of the newest event are not numbers any more."""
    policies = (event or {}).get("policies") or {}
    broken = [
        f"{measure.replace('_', ' ')} of {policy}"
        for policy, said in policies.items()
        for measure, value in (said.get("learner") or {}).items()
        if value is None
    ]
    if not broken:
        return []
    verb = "is" if len(broken) == 1 else "are"
    advice = "If that lasts, stop it, lower the learning rate or clip gradients, and resume from a good checkpoint."
    return [Alert("warn", f"{', '.join(broken[:3])} {verb} not a number", advice)]


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
    advice = "It may have learned what it can: evaluate it, and stop it if that is enough. Else explore more."
    return [Alert("warn", f"The return has not improved for {count(since)} env steps", advice)]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
