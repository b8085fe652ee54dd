"""What of two runs can be compared: their metrics without the clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from mosaic.telemetry.events.event import COUNTERS, MetricEvent
from mosaic.telemetry.events.resume_filter import visible

TRAINING = frozenset({"iteration", "episode", "evaluation"})  # kinds that tell how training goes
_OF_THE_MOMENT = frozenset({"seq", "attempt", "timestamp", "time_split"})

Values = dict[str, Any]


def training_events(events: Iterable[MetricEvent]) -> list[MetricEvent]:
    """Without those that only the clock made due: a repeated run has them elsewhere."""
    return [event for event in events if is_training(event)]


def is_training(event: MetricEvent) -> bool:
    return event["kind"] in TRAINING and event.get("trigger") != "clock"


def curve(events: Iterable[MetricEvent]) -> list[Values]:
    """What readers show of the run, without what depends on the hour and on the machine's speed."""
    return [_values(event) for event in training_events(visible(events))]


def _values(event: Mapping[str, Any]) -> Values:
    """Names that end in `_s` are seconds or rates by the second."""
    return {
        name: _values(value) if isinstance(value, Mapping) else value
        for name, value in event.items()
        if name not in _OF_THE_MOMENT and not name.endswith("_s")
    }


def difference(one: Sequence[Values], other: Sequence[Values]) -> str | None:
    """The first that differs, in words."""
    for number, (left, right) in enumerate(zip_longest(one, other), 1):
        if left == right:
            continue
        if left is None or right is None:
            return f"one has {len(one)} events and the other {len(other)}"
        name = next(name for name in (left | right) if left.get(name) != right.get(name))
        return f"event {number} says {name} {left.get(name)!r} in one and {right.get(name)!r} in the other"
    return None


def fallen_counter(events: Iterable[Mapping[str, Any]]) -> str | None:
    """A counter that went down, in words."""
    highest: dict[str, int] = {}
    for event in events:
        for name in COUNTERS:
            count = event.get(name)
            if count is None:
                continue
            if count < highest.get(name, 0):
                return f"{name} fell from {highest[name]} to {count}"
            highest[name] = count
    return None
