"""Which events count after a run was resumed from an earlier point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard

from mosaic.telemetry.events.event import MetricEvent


class ResumePoint(NamedTuple):
    """From here on `attempt` tells the run's story, not the attempts before it."""

    seq: int
    attempt: int
    from_env_steps: float


def resume_point(event: Mapping[str, Any]) -> ResumePoint | None:
    """A resumed run without a point to go on from begins anew, at 0."""
    if event["kind"] != "resumed":
        return None
    start = event.get("from_env_steps")
    return ResumePoint(event["seq"], event["attempt"], start if is_number(start) else 0)


def resume_points(events: Iterable[Mapping[str, Any]]) -> list[ResumePoint]:
    return [point for event in events if (point := resume_point(event))]


def is_hidden(event: Mapping[str, Any], points: Iterable[ResumePoint]) -> bool:
    """Whether a later attempt went back behind this event. One that names no env_steps (an alert) always shows."""
    steps = event.get("env_steps")
    return is_number(steps) and any(
        event["seq"] < point.seq and event["attempt"] < point.attempt and steps > point.from_env_steps
        for point in points
    )


def visible(events: Iterable[MetricEvent]) -> list[MetricEvent]:
    """What is left of all of a run's events: from each resume point on, only the newest attempt."""
    kept = list(events)
    points = resume_points(kept)
    return [event for event in kept if not is_hidden(event, points)] if points else kept


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
