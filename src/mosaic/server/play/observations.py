"""Observations as text, for matches in envs without a picture."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from mosaic.core.ids import AgentID
from mosaic.core.turn import Observation

_MOST_AGENTS = 4
_MOST_VALUES = 12  # of one array, a line each
_MOST_LINES = 60


def describe_observations(observations: Mapping[AgentID, Observation]) -> str:
    """Return what the acting agents observe, a value on each line; large arrays by their range."""
    lines: list[str] = []
    for agent, observation in list(observations.items())[:_MOST_AGENTS]:
        values = list(_values("observation", observation))
        width = max(len(name) for name, _ in values)
        lines += [agent, *(f"  {name:<{width}}  {value}" for name, value in values)]
    hidden = len(observations) - _MOST_AGENTS
    return "\n".join([*lines[:_MOST_LINES], *([f"and {hidden} more agents"] if hidden > 0 else [])])


def _values(name: str, value: Observation) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _values(str(key), part)
        return
    if isinstance(value, tuple):
        for place, part in enumerate(value):
            yield from _values(f"{name}[{place}]", part)
        return
    array = np.asarray(value)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        yield name, f"{array.item():.4g}" if array.dtype.kind == "f" else str(value)
    elif array.ndim == 1 and array.size <= _MOST_VALUES:
        for place, number in enumerate(array.tolist()):
            yield f"{name}[{place}]", f"{number:.4g}"
    elif not array.size:
        yield name, f"{array.shape}, empty"
    else:
        yield name, f"{array.shape}, {array.min():.4g} to {array.max():.4g}"
