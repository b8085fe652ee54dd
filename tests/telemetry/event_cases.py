"""Events, files of them and what a naive reader makes of both."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from mosaic.telemetry.events.event import MetricEvent

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
"""A busy machine is no failure."""
KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans()
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    NUMBERS | TEXTS | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.fixed_dictionaries(
    {},
    optional={
        "kind": st.sampled_from(["iteration", "episode", "evaluation", "alert"]),
        "env_steps": st.integers(0, 2**53) | st.none(),
        "episode_reward_mean": st.floats(allow_nan=False, allow_infinity=False) | st.none(),
        "policies": st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=2), max_size=2),
        "custom_metrics": st.dictionaries(KEYS, VALUES, max_size=3),
        "message": TEXTS,
    },
)


@st.composite
def stories(draw: st.DrawFn) -> list[MetricEvent]:
    """A run of several attempts, each resumed from anywhere, as its file tells it."""
    events: list[Any] = []
    for attempt in range(1, draw(st.integers(1, 4)) + 1):
        first = len(events)
        for steps in draw(st.lists(st.integers(0, 30) | st.none(), max_size=8)):
            kind = draw(st.sampled_from(["iteration", "iteration", "alert", "evaluation"]))
            event = {"kind": kind, "attempt": attempt, "loss": draw(st.integers(-5, 5))}
            events.append(event if steps is None else {**event, "env_steps": steps})
        if attempt > 1:
            start = draw(st.integers(0, 30) | st.none())
            resumed = {"kind": "resumed", "from_env_steps": start, "attempt": attempt}
            events.insert(min(first + draw(st.integers(0, 1)), len(events)), resumed)
    return [{"seq": seq, "timestamp": float(-seq), **event} for seq, event in enumerate(events, start=1)]


def naive_visible(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Attempt after attempt, what it goes back behind is crossed out."""
    shown: list[Mapping[str, Any]] = []
    for event in events:
        if event["kind"] == "resumed":
            start = event["from_env_steps"] or 0
            shown = [
                old
                for old in shown
                if old["attempt"] == event["attempt"] or old.get("env_steps") is None or old["env_steps"] <= start
            ]
        shown.append(event)
    return shown


def write_lines(path: Path, events: Iterable[Mapping[str, Any]]) -> None:
    path.write_bytes(b"".join(json.dumps(event).encode() + b"\n" for event in events))
