"""Restrictions of Godot RL Agents' plug-in on exported policies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import leaves, picture_layout


def check_plug_in(what: str, observation: Space[object], action: Space[object], *, masked: bool, memory: int) -> None:
    """Raise InputError with the reason for a policy that Godot RL Agents' plug-in cannot run."""
    reason = _reason(observation, action, masked=masked, memory=memory)
    if reason is not None:
        raise InputError(f"{what} cannot run in Godot RL Agents' plug-in: {reason} Use --target onnx.")


def plug_in_columns(parts: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """Return where the plug-in looks for each number of an action that mixes choices and numbers.

    It then takes as many deviations behind the numbers of each part for granted, and skips them.
    """
    columns: list[int] = []
    start = 0
    for kind, size in parts:
        columns += range(start, start + size)
        start += size if kind == "discrete" else 2 * size
    return tuple(columns)


def spread_over(columns: Sequence[int], parts: Sequence[tuple[str, int]]) -> tuple[int, ...]:
    """Return the number of the action for each column that the plug-in expects; one beyond the last for a deviation."""
    width = sum(size if kind == "discrete" else 2 * size for kind, size in parts)
    number = {column: place for place, column in enumerate(columns)}
    return tuple(number.get(column, len(columns)) for column in range(width))


def _reason(observation: Space[object], action: Space[object], *, masked: bool, memory: int) -> str | None:
    if memory:
        return "it has memory, and the plug-in gives every decision the same state."
    if masked:
        return "its actions are masked, and the plug-in gives no masks."
    for leaf in leaves(observation):
        name = ".".join(map(str, leaf.path)) or "its observation"
        if len(leaf.path) > 1 or (leaf.path and not isinstance(leaf.path[0], str)):
            return f"{name} is inside another part of the observation, and the plug-in gives keys with numbers only."
        if isinstance(leaf.space, spaces.Box) and picture_layout(leaf.space) is not None:
            return f"{name} is a picture, which the plug-in does not give to a model."
    if isinstance(action, spaces.Box) and not (np.all(action.low == -1) and np.all(action.high == 1)):
        return f"its action is {action}, and the plug-in clamps numbers to -1..1."
    return None
