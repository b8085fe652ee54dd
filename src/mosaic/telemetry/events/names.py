"""What a number inside an event is called: `episode_reward_mean`, `policies/left/learner/loss`, `evaluation/…`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

AXES = ("env_steps", "agent_steps", "episodes_total", "training_iteration", "timestamp", "seq")
FRAME = frozenset({*AXES, "attempt", "kind"})
"""Fields that place an event; the others are what it says."""


def prefix(kind: str) -> str:
    """Iteration events name their numbers plainly. Others put their kind first, or an evaluation's mean reward
    would lie on the training curve."""
    return "" if kind == "iteration" else f"{kind}/"


def leaves(event: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Name and value of everything an event says, without the fields that place it."""
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
