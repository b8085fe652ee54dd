"""Why a value is not in a space, in words an env's author can act on."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.envs.describe import describe_space
from mosaic.envs.upstream import quiet


def why_outside(space: Space[Any], value: Any) -> str | None:
    """None where the value is a member."""
    match space:
        case spaces.Box():
            return _why_outside_box(space, value)
        case spaces.Dict():
            if not isinstance(value, dict) or value.keys() != space.spaces.keys():
                names = sorted(value) if isinstance(value, dict) else type(value).__name__
                return f"{names} instead of a dict with {sorted(space.spaces)}"
            return _first_part((f"[{key!r}]", part, value[key]) for key, part in space.spaces.items())
        case spaces.Tuple():
            if not isinstance(value, tuple) or len(value) != len(space.spaces):
                return f"{value!r} instead of a tuple of {len(space.spaces)}"
            parts = enumerate(zip(space.spaces, value, strict=True))
            return _first_part((f"[{index}]", part, item) for index, (part, item) in parts)
    with quiet():  # some spaces warn when they are asked about strange values
        inside = space.contains(value)
    return None if inside else f"{_short(value)} of type {type(value).__name__} instead of {describe_space(space)}"


def _first_part(parts: Any) -> str | None:
    for where, space, value in parts:
        why = why_outside(space, value)
        if why is not None:
            return f"in {where} {why}"
    return None


def _why_outside_box(space: spaces.Box, value: Any) -> str | None:
    if not isinstance(value, np.ndarray | np.generic):
        return f"a {type(value).__name__} instead of a numpy array"
    if value.shape != space.shape:
        return f"shape {value.shape} instead of {space.shape}"
    if space.dtype is not None and not np.can_cast(value.dtype, space.dtype):
        return f"dtype {value.dtype} instead of {space.dtype}"
    outside = ~((value >= space.low) & (value <= space.high))  # also true of nan
    if outside.any():
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        number, low, high = np.asarray(value)[index], space.low[index], space.high[index]
        return f"{number} at {list(index)}, outside {low}..{high}"
    return None


def _short(value: Any, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"
