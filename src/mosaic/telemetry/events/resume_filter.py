"""Filter of events that were superseded when a run was resumed from an earlier point."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeGuard

from mosaic.telemetry.events.event import MetricEvent


class ResumePoint(NamedTuple):
    """Point from which `attempt` replaces the attempts before it."""

    seq: int
    attempt: int
    from_env_steps: float


def resume_point(event: Mapping[str, Any]) -> ResumePoint | None:
    """Return the resume point of a `resumed` event, at 0 where it names none: the run started over."""
    if event["kind"] != "resumed":
        return None
    start = event.get("from_env_steps")
    return ResumePoint(event["seq"], event["attempt"], start if is_number(start) else 0)


def resume_points(events: Iterable[Mapping[str, Any]]) -> list[ResumePoint]:
    return [point for event in events if (point := resume_point(event))]


def is_hidden(event: Mapping[str, Any], points: Iterable[ResumePoint]) -> bool:
    """Return whether a later attempt superseded this event. Events without env_steps (alerts) are always visible."""
    steps = event.get("env_steps")
    return is_number(steps) and any(
        event["seq"] < point.seq and event["attempt"] < point.attempt and steps > point.from_env_steps
        for point in points
    )


def visible(events: Iterable[MetricEvent]) -> list[MetricEvent]:
    """Return the visible events of a run: from each resume point on, only those of the newest attempt."""
    kept = list(events)
    points = resume_points(kept)
    return [event for event in kept if not is_hidden(event, points)] if points else kept


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
