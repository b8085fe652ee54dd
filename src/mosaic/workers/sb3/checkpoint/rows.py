"""Observation rows as SB3's networks read them: SB3's own preprocessing, for the spaces of an env."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import FormatError, InputError
from mosaic.core.turn import Observation
from mosaic.envs.space_json import Document, space_differences, space_to_json
from mosaic.envs.vector.encoding import Row, RowCode, RowPart, row_code
from mosaic.workers.sb3.checkpoint.facts import Sb3Facts

BYTE = np.float32(255)
_Write = Callable[[Observation, Row], None]


class Part(NamedTuple):
    """Range of a row, from one part of SB3's observation space."""

    key: str | None  # of a Dict; None: the whole observation
    start: int
    shape: tuple[int, ...]  # images: channels, height, width

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=np.int64))


def row_parts(document: Document) -> tuple[Part, ...]:
    """Return the parts of the row of an observation space, in SB3's order."""
    found: list[Part] = []
    for key, inner in part_documents(document):
        start = found[-1].start + found[-1].size if found else 0
        found.append(Part(key, start, _shape(inner)))
    return tuple(found)


def sb3_row(space: Space[object], facts: Sb3Facts) -> RowCode | None:
    """Return the code of an env's observations; None if the policy saw other ones."""
    parts, steps = row_parts(facts.observation), []
    for part, (key, inner) in zip(parts, part_documents(facts.observation), strict=True):
        if key is not None and not (isinstance(space, spaces.Dict) and key in space.spaces):
            break
        own = space if key is None else space[key]  # type: ignore[index]
        write = _writer(own, inner, facts.normalize_images)
        if write is None:
            break
        steps.append((key, slice(part.start, part.start + part.size), write))
    else:
        if isinstance(space, spaces.Dict) == (parts[0].key is not None):
            width = parts[-1].start + parts[-1].size
            named = tuple(RowPart(each.key or "observation", each.start, each.shape, False) for each in parts)
            return RowCode(width, named, _joined(steps))
    return _encoded(space, facts.observation)


def observation_differences(space: Space[object], document: Document, name: str) -> list[str]:
    """List how an env's observations differ from those that a policy saw."""
    return space_differences(space_to_json(space), document, name)


def _joined(steps: list[tuple[str | None, slice, _Write]]) -> _Write:
    if len(steps) == 1 and steps[0][0] is None:
        return steps[0][2]

    def write_all(observation: Observation, out: Row) -> None:
        for key, where, write in steps:
            write(observation[key], out[where])

    return write_all


def _encoded(space: Space[object], document: Document) -> RowCode | None:
    """Return Mosaic's own code of a space, where SB3 saw the rows that it writes."""
    if document["space"] != "Box" or len(document["shape"]) != 1 or document["dtype"] != "float32":
        return None
    try:
        code = row_code(space)
    except InputError:
        return None
    return code if [code.width] == list(document["shape"]) else None


def part_documents(document: Document) -> Iterator[tuple[str | None, Document]]:
    """Yield the key and the space of each part of an observation space."""
    if document["space"] == "Dict":
        yield from ((str(key), part) for key, part in document["parts"])
    else:
        yield None, document


def _shape(document: Document) -> tuple[int, ...]:
    match document["space"]:
        case "Box":
            return tuple(int(size) for size in document["shape"]) or (1,)
        case "Discrete":
            return (int(document["n"]),)
        case "MultiDiscrete":
            return (int(np.sum(document["nvec"])),)
        case "MultiBinary":
            return (int(np.prod(document["shape"])),)
    raise FormatError(f"SB3 reads no observations of the kind {document['space']}.")


def _writer(space: Space[object], document: Document, normalize: bool) -> _Write | None:
    """Return what writes one part; None if it is not what the policy saw. Bounds may differ: SB3 does not use them."""
    here = space_to_json(space)
    if isinstance(space, spaces.Box) and document["space"] == "Box":
        if str(space.dtype) != document["dtype"]:
            return None
        shape, picture = tuple(document["shape"]), is_picture(document)
        scale = picture and normalize
        if space.shape == shape:
            return _bytes if scale else _numbers
        if picture and (space.shape[2], *space.shape[:2]) == shape:
            return _turned_bytes if scale else _turned_numbers
        return None
    size = {"Discrete": "n", "MultiDiscrete": "nvec", "MultiBinary": "shape"}.get(str(here["space"]))
    alike = size is not None and here["space"] == document["space"] and here[size] == document[size]
    return row_code(space).write if alike else None


def is_picture(document: Document) -> bool:
    """Return whether SB3 takes a Box for an image."""
    return (
        document["dtype"] == "uint8" and len(document["shape"]) == 3 and (document["low"], document["high"]) == (0, 255)
    )


def _numbers(observation: Observation, out: Row) -> None:
    out[:] = np.ravel(observation)


def _bytes(observation: Observation, out: Row) -> None:
    np.divide(np.ravel(observation), BYTE, out=out)


def _turned_numbers(observation: Observation, out: Row) -> None:
    _numbers(np.moveaxis(observation, -1, 0), out)


def _turned_bytes(observation: Observation, out: Row) -> None:
    _bytes(np.moveaxis(observation, -1, 0), out)
