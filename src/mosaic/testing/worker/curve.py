"""Comparison of two runs' metrics, ignoring time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest

from mosaic.telemetry.events.event import COUNTERS, MetricEvent
from mosaic.telemetry.events.reader import visible

TRAINING = frozenset({"iteration", "episode", "evaluation"})  # kinds that report training progress
_OF_THE_MOMENT = frozenset({"seq", "attempt", "timestamp", "time_split"})

Values = dict[str, object]


def training_events(events: Iterable[MetricEvent]) -> list[MetricEvent]:
    """Select training events, except those triggered only by the clock: a repeated run has them elsewhere."""
    return [event for event in events if is_training(event)]


def is_training(event: MetricEvent) -> bool:
    return event["kind"] in TRAINING and event.get("trigger") != "clock"


def curve(events: Iterable[MetricEvent]) -> list[Values]:
    """Return the run's metrics as readers see them, without what depends on the time and the machine's speed."""
    return [_values(event) for event in training_events(visible(events))]


def _values(event: Mapping[str, object]) -> Values:
    """Drop values of the moment; names that end in `_s` are seconds or rates per second."""
    return {
        name: _values(value) if isinstance(value, Mapping) else value
        for name, value in event.items()
        if name not in _OF_THE_MOMENT and not name.endswith("_s")
    }


def difference(one: Sequence[Values], other: Sequence[Values]) -> str | None:
    """Describe the first difference between two curves."""
    for number, (left, right) in enumerate(zip_longest(one, other), 1):
        if left == right:
            continue
        if left is None or right is None:
            return f"one has {len(one)} events and the other {len(other)}"
        name = next(name for name in (left | right) if left.get(name) != right.get(name))
        return f"event {number} says {name} {left.get(name)!r} in one and {right.get(name)!r} in the other"
    return None


def fallen_counter(events: Iterable[Mapping[str, object]]) -> str | None:
    """Describe the first counter that decreased."""
    highest: dict[str, float] = {}
    for event in events:
        for name in COUNTERS:
            count = event.get(name)
            if not isinstance(count, int | float):
                continue
            if count < highest.get(name, 0):
                return f"{name} fell from {highest[name]} to {count}"
            highest[name] = count
    return None
