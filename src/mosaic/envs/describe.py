"""A space in a few words."""

from __future__ import annotations

from typing import Any

from gymnasium import spaces
from gymnasium.spaces import Space


def describe_space(space: Space[Any]) -> str:
    """`Box(4) float32`, `Discrete(9)`, `84×84×3 uint8`, `Dict(a: Discrete(2), b: Box(3) float32)`."""
    match space:
        case spaces.Discrete():
            low, count = int(space.start), int(space.n)
            return f"Discrete({low}..{low + count - 1})" if low else f"Discrete({count})"
        case spaces.Box(shape=shape, dtype=dtype):
            sizes = "×".join(map(str, shape))
            return f"{sizes} {dtype}" if len(shape) > 1 else f"Box({sizes}) {dtype}"
        case spaces.MultiDiscrete(nvec=nvec):
            return f"MultiDiscrete({_listed(nvec.ravel().tolist())})"
        case spaces.MultiBinary(shape=shape):
            return f"MultiBinary({'×'.join(map(str, shape))})"
        case spaces.Dict():
            return f"Dict({', '.join(f'{key}: {describe_space(part)}' for key, part in space.spaces.items())})"
        case spaces.Tuple():
            return f"Tuple({', '.join(map(describe_space, space.spaces))})"
        case spaces.Sequence():
            return f"Sequence({describe_space(space.feature_space)})"
        case spaces.Text():
            return f"Text({space.min_length}..{space.max_length})"
    return type(space).__name__


def _listed(numbers: list[int], most: int = 8) -> str:
    return ", ".join(map(str, numbers[:most])) + (f", … {len(numbers)} in all" if len(numbers) > most else "")
