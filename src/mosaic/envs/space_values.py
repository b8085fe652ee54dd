"""Members of observation and action spaces as plain JSON, as programs in other languages write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import FormatError, shown
from mosaic.core.ids import Json


def value_to_json(value: object) -> Json:
    """Return numbers, lists and objects for a member of a space; numbers that JSON lacks become "NaN" and "Infinity".

    Raise FormatError for anything else, such as a Graph.
    """
    match value:
        case None | bool() | int() | str():
            return value
        case float():
            return value if math.isfinite(value) else _NAMES[str(value)]
        case dict() | Mapping():
            return {str(key): value_to_json(part) for key, part in value.items()}
        case np.generic():
            return value_to_json(value.item())
        case np.ndarray():
            return value_to_json(value.tolist())
        case tuple() | list():
            return [value_to_json(part) for part in value]
    raise FormatError(f"a {type(value).__name__} cannot be written as JSON")


_NAMES = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def value_from_json(space: Space[object], data: object, place: str) -> Any:
    """Return the member of the space that `data` describes; raise FormatError with the place of the first problem.

    Types and shapes are checked, ranges are not: bounds of a Box are often wrong, and legality is up to the caller.
    """
    match space:  # Dict and Tuple last: whether a space is one of them takes longest to find out
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            return _array(space, data, place)
        case spaces.Discrete():
            return _integer(data, place)
        case spaces.Text():
            if not isinstance(data, str):
                raise FormatError(f"{place}: {shown(data)}, where a text belongs")
            return data
        case spaces.Dict():
            return _parts(space, data, place)
        case spaces.Tuple():
            items = _list(data, len(space.spaces), place)
            pairs = zip(space.spaces, items, strict=True)
            return tuple(value_from_json(part, item, f"{place}.{index}") for index, (part, item) in enumerate(pairs))
    raise FormatError(f"{place}: members of {type(space).__name__} spaces cannot be read from JSON")


def _integer(data: object, place: str) -> int:
    if isinstance(data, bool) or not (isinstance(data, int) or (isinstance(data, float) and data.is_integer())):
        raise FormatError(f"{place}: {shown(data)}, where an integer belongs")
    return int(data)


def _parts(space: spaces.Dict, data: object, place: str) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise FormatError(f"{place}: {shown(data)}, where an object with {', '.join(space.spaces)} belongs")
    missing, unknown = space.spaces.keys() - data.keys(), data.keys() - space.spaces.keys()
    if missing or unknown:
        problem = f"without {', '.join(sorted(missing))}" if missing else f"with unknown {', '.join(sorted(unknown))}"
        raise FormatError(f"{place}: an object {problem}; it has {', '.join(space.spaces)}")
    return {key: value_from_json(part, data[key], f"{place}.{key}") for key, part in space.spaces.items()}


def _list(data: object, length: int, place: str) -> list[object]:
    if not isinstance(data, list) or len(data) != length:
        raise FormatError(f"{place}: {shown(data)}, where a list of {length} belongs")
    return data


def _array(space: spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary, data: object, place: str) -> Any:
    assert space.dtype is not None
    assert space.shape is not None
    try:
        found = np.array(data, dtype=object if data is None else None)
    except ValueError as error:  # rows of unequal length
        raise FormatError(f"{place}: not an array of shape {space.shape} ({error})") from error
    if found.dtype.kind == "U" and space.dtype.kind == "f":
        found = _named_numbers(found, place)
    if found.shape != space.shape:
        raise FormatError(f"{place}: an array of shape {found.shape}, where one of shape {space.shape} belongs")
    if found.dtype.kind not in "biuf":
        raise FormatError(f"{place}: {shown(data)}, where numbers belong")
    if space.dtype.kind != "f":
        _check_integers(found, space.dtype, place)
    return found.astype(space.dtype, copy=False)


def _named_numbers(found: Any, place: str) -> Any:
    """Return floats for an array in which some numbers are named; numpy has made texts of the others."""
    try:
        return found.astype(np.float64)
    except ValueError as error:
        raise FormatError(f"{place}: {error}, where numbers belong") from error


def _check_integers(found: Any, dtype: Any, place: str) -> None:
    if found.dtype.kind == "f" and not (np.isfinite(found).all() and (found == np.floor(found)).all()):
        raise FormatError(f"{place}: fractions, where integers belong")
    if dtype.kind in "iu" and found.size:
        limits = np.iinfo(dtype)
        if found.min() < limits.min or found.max() > limits.max:
            raise FormatError(f"{place}: a number outside {limits.min}..{limits.max}")
