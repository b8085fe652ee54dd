"""Labels of a picture: each agent's name and return, also as one line of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

_BETWEEN, _IS = ", ", "="


class Label(NamedTuple):
    name: str
    value: str


def return_labels(returns: Mapping[str, float]) -> list[Label]:
    return [Label(agent, f"{total:.4g}") for agent, total in returns.items()]


def to_line(labels: Sequence[Label], most_bytes: int) -> str:
    """Format labels as `red_0=1.5, red_1=-2`, or as `red_0=1.5, +7 more` where there is no room for all.

    A label without a value is its name alone; it needs a label with a value after it to be distinguished from an agent.
    """
    parts = [f"{label.name}{_IS}{label.value}" if label.value else label.name for label in labels]
    for kept in range(len(parts), 0, -1):
        left = len(parts) - kept
        line = _BETWEEN.join([*parts[:kept], *([f"+{left} more"] if left else [])])
        if len(line.encode()) <= most_bytes:
            return line
    return f"{len(parts)} agents" if parts else ""


def from_line(line: str, value: float) -> list[Label]:
    """Parse the labels of a frame; a line with just one agent, or none, gets the frame's own return as value."""
    if _IS not in line:
        return [Label(line or "return", f"{value:.4g}")]
    labels = []
    for part in line.split(_BETWEEN):
        name, _, shown = part.rpartition(_IS)
        labels.append(Label(name, shown) if name else Label(part, ""))
    return labels
