"""Names of the numbers in an event: `episode_reward_mean`, `policies/left/learner/loss`, `evaluation/…`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

AXES = ("env_steps", "agent_steps", "episodes_total", "training_iteration", "timestamp", "seq")
FRAME = frozenset({*AXES, "attempt", "kind"})
"""Fields that locate an event; the others are its content."""


def prefix(kind: str) -> str:
    """Return the prefix of an event's metric names: none for iterations, else the kind.

    Without it an evaluation's mean reward would appear on the training curve.
    """
    return "" if kind == "iteration" else f"{kind}/"


def leaves(event: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of an event's content, without the fields that locate it."""
    start = prefix(event["kind"])
    for key, value in event.items():
        if key not in FRAME:
            yield from _below(start + key, value)


def _below(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _below(f"{name}/{key}", inner)
    else:
        yield name, value
