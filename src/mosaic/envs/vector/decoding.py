"""Decoding of the rows of a vector env to observations as the env itself gives them, many at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import BRIGHTEST, Row, picture_layout, row_code

Observations: TypeAlias = NDArray[np.generic] | dict[str, NDArray[np.generic]]
Decoder: TypeAlias = Callable[[Row], NDArray[np.generic]]  # of rows [n, width]; the result is a copy


def observation_decoder(space: Space[object]) -> Callable[[Row], Observations]:
    """Return a function from rows to a batch of observations of the space, the inverse of `row_code`."""
    if not isinstance(space, spaces.Dict):
        return _leaf(space)
    parts: list[tuple[str, slice, Decoder]] = []
    start = 0
    for key, inner in space.spaces.items():
        width = row_code(inner).width
        parts.append((key, slice(start, start + width), _leaf(inner)))
        start += width
    return lambda rows: {key: decode(rows[:, where]) for key, where, decode in parts}


def _leaf(space: Space[object]) -> Decoder:
    match space:
        case spaces.Box():
            return _picture(space) if picture_layout(space) else _box(space)
        case spaces.Discrete():
            start = int(space.start)
            return lambda rows: rows.argmax(axis=1) + start
        case spaces.MultiDiscrete():
            return _choices(space)
        case spaces.MultiBinary():
            shape = space.shape
            return lambda rows: rows.reshape(len(rows), *shape).astype(np.int8)
    raise InputError(f"Rows cannot be turned into observations of {space}: flatten them, or use --worker native.")


def _box(space: spaces.Box) -> Decoder:
    shape, dtype = space.shape, np.dtype(space.dtype)
    if dtype.kind == "f":
        return lambda rows: rows.reshape(len(rows), *shape).astype(dtype)
    return lambda rows: np.rint(rows).reshape(len(rows), *shape).astype(dtype)


def _picture(space: spaces.Box) -> Decoder:
    shape = space.shape
    if picture_layout(space) != "channels first":
        return lambda rows: np.rint(rows * BRIGHTEST).astype(np.uint8).reshape(len(rows), *shape)
    turned = (*shape[1:], shape[0])
    return lambda rows: np.moveaxis(np.rint(rows * BRIGHTEST).astype(np.uint8).reshape(len(rows), *turned), 3, 1)


def _choices(space: spaces.MultiDiscrete) -> Decoder:
    ends = np.cumsum(space.nvec.ravel())[:-1]
    shape, start = space.shape, space.start

    def decode(rows: Row) -> NDArray[np.generic]:
        chosen = [part.argmax(axis=1) for part in np.split(rows, ends, axis=1)]
        shifted: NDArray[np.generic] = np.stack(chosen, axis=1).reshape(len(rows), *shape) + start
        return shifted

    return decode
