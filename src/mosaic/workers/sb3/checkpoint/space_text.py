"""Spaces in an SB3 zip: read from the text beside their pickles."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from mosaic.core.ids import JsonObject

_NUMBER = re.compile(r"[-+]?(?:inf|nan|\d+\.?\d*(?:e[-+]?\d+)?)", re.I)
_PART = re.compile(r"(?P<key>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")\s*[:,]\s*(?P<kind>\w+)\(")
_SHAPE = re.compile(r"\((?:\s*\d+\s*,?)*\)")
UNKNOWN = "nan"  # a bound that the text does not give


class UnreadableSpaceError(ValueError):
    """Space whose text does not say what it is."""


def space_from_fields(fields: Any) -> JsonObject:
    """Return the document of a space, from the attributes that SB3 writes as text beside its pickle."""
    if not isinstance(fields, Mapping):
        raise UnreadableSpaceError("it has no attributes")
    kind = str(fields.get(":type:", "")).rpartition(".")[2].rstrip("'>")
    try:
        match kind:
            case "Discrete":
                return {"space": "Discrete", "n": int(fields["n"]), "start": int(fields.get("start", 0))}
            case "MultiDiscrete":
                return _multi_discrete(str(fields["nvec"]))
            case "MultiBinary":
                return _multi_binary(str(fields["n"]))
            case "Box":
                return _box(
                    fields.get("_shape", fields.get("shape")),
                    str(fields["dtype"]),
                    [str(fields.get(key, "")) for key in ("low_repr", "low")],
                    [str(fields.get(key, "")) for key in ("high_repr", "high")],
                )
            case "Dict":
                return {"space": "Dict", "parts": _parts(str(fields["spaces"]))}
    except (KeyError, TypeError, ValueError, SyntaxError) as error:
        raise UnreadableSpaceError(f"its text is not that of a {kind}: {error}") from error
    raise UnreadableSpaceError(f"it is a '{kind}'")


def _parts(text: str) -> list[list[Any]]:
    """Return the parts of a Dict from its representation: {'image': Box(0, 255, (3, 36, 36), uint8), …}."""
    found: list[list[Any]] = []
    place = 0
    while (part := _PART.search(text, place)) is not None:
        place = _closing(text, part.end())
        found.append([str(ast.literal_eval(part["key"])), _represented(part["kind"], text[part.end() : place])])
    if not found:
        raise ValueError("it has no parts")
    return found


def _represented(kind: str, inner: str) -> JsonObject:
    match kind:
        case "Discrete":
            numbers = _numbers(inner)
            return {"space": "Discrete", "n": int(numbers[0]), "start": int(numbers[1]) if len(numbers) > 1 else 0}
        case "MultiDiscrete":
            return _multi_discrete(inner.partition("]")[0])
        case "MultiBinary":
            return _multi_binary(inner)
        case "Box":
            shapes = list(_SHAPE.finditer(inner))
            if not shapes:
                raise ValueError(f"no shape in Box({inner})")
            bounds = inner[: shapes[-1].start()]
            low, _, high = bounds.partition("]," if "]" in bounds else ",")
            shape, dtype = ast.literal_eval(shapes[-1][0] or "()"), inner[shapes[-1].end() :].strip(" ,")
            return _box(shape if isinstance(shape, tuple) else (shape,), dtype, [low], [high])
    raise ValueError(f"a part is a '{kind}'")


def _closing(text: str, start: int) -> int:
    """Return where the bracket that was opened before `start` is closed."""
    depth = 1
    for place in range(start, len(text)):
        depth += (text[place] == "(") - (text[place] == ")")
        if depth == 0:
            return place
    raise ValueError("a bracket is not closed")


def _box(shape: Any, dtype: str, lows: list[str], highs: list[str]) -> JsonObject:
    sizes = [int(size) for size in shape]
    if any(size < 0 for size in sizes):
        raise ValueError(f"the shape {sizes}")
    np.dtype(dtype)
    count = int(np.prod(sizes, dtype=np.int64))
    return {"space": "Box", "shape": sizes, "dtype": dtype, "low": _bound(lows, count), "high": _bound(highs, count)}


def _bound(texts: list[str], count: int) -> Any:
    """Return a bound from the first text that gives it whole: numpy shortens long arrays."""
    for text in texts:
        numbers = _numbers(text)
        if "..." not in text and len(numbers) in (1, count):
            plain = [value if np.isfinite(value) else str(value) for value in numbers]
            return plain[0] if len(set(plain)) == 1 else plain
    return UNKNOWN


def _multi_discrete(text: str) -> JsonObject:
    counts = [int(number) for number in _numbers(text)]
    return {"space": "MultiDiscrete", "nvec": counts, "start": [0] * len(counts), "dtype": "int64"}


def _multi_binary(text: str) -> JsonObject:
    return {"space": "MultiBinary", "shape": [int(number) for number in _numbers(text)]}


def _numbers(text: str) -> list[float]:
    return [float(number) for number in _NUMBER.findall(text)]
