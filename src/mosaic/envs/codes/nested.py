"""Codes of any space: Tuple and Dict are composed of the codes of their parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from operator import index as as_int
from typing import SupportsIndex

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Box, Space
from numpy.typing import ArrayLike, NDArray

from mosaic.core.errors import InputError
from mosaic.envs.codes.box import Axis, BinnedCode, BinsGiven, Spelling, in_training, settle
from mosaic.envs.codes.discrete import ArrayCode, DiscreteCode
from mosaic.envs.codes.space_code import (
    MOST_STATES,
    Member,
    SpaceCode,
    check_batchable,
    checked_index,
    checked_indices,
    count_text,
    product,
    refusal,
    space_text,
    split_index,
    split_indices,
)


class TupleCode:
    """Code of a Tuple: parts by position."""

    __slots__ = ("_sizes", "counts", "parts", "size", "space")

    def __init__(self, space: spaces.Tuple, parts: Sequence[SpaceCode]) -> None:
        self.space = space
        self.parts = tuple(parts)
        self.counts = tuple(chain.from_iterable(part.counts for part in parts))
        self.size = product(part.size for part in parts)
        self._sizes = [part.size for part in parts]

    def encode(self, value: Member) -> int:
        return _encode(self.parts, self._values(value))

    def decode(self, index: SupportsIndex) -> tuple[Member, ...]:
        digits = split_index(checked_index(index, self.size), self._sizes)
        return tuple(part.decode(digit) for part, digit in zip(self.parts, digits, strict=True))

    def encode_batch(self, values: Member) -> NDArray[np.int64]:
        return _encode_batch(self.parts, self._values(values), self.size)

    def decode_batch(self, indices: ArrayLike) -> tuple[Member, ...]:
        digits = split_indices(checked_indices(indices, self.size), self._sizes)
        return tuple(part.decode_batch(digits[:, column]) for column, part in enumerate(self.parts))

    def _values(self, value: Member) -> Iterable[Member]:
        if not isinstance(value, tuple | list | np.ndarray) or len(value) != len(self.parts):
            raise refusal(value, self.space, f"it should be a tuple of {len(self.parts)}")
        return value


class DictCode:
    """Code of a Dict: parts by key, in the order of the space, regardless of the order of the value."""

    __slots__ = ("_sizes", "_whole_numbers", "counts", "parts", "size", "space")

    def __init__(self, space: spaces.Dict, parts: Mapping[str, SpaceCode]) -> None:
        self.space = space
        self.parts = dict(parts)
        self.counts = tuple(chain.from_iterable(part.counts for part in parts.values()))
        self.size = product(part.size for part in parts.values())
        self._sizes = [part.size for part in parts.values()]
        self._whole_numbers = _whole_numbers(parts)

    def encode(self, value: Member) -> int:
        if self._whole_numbers is not None and type(value) is dict and len(value) == len(self._whole_numbers):
            index = 0
            try:
                for key, start, size in self._whole_numbers:
                    digit = as_int(value[key]) - start
                    if not 0 <= digit < size:
                        break
                    index = index * size + digit
                else:
                    return index
            except (KeyError, TypeError):
                pass  # falls through to the code that raises the full error
        return _encode(self.parts.values(), self._values(value))

    def decode(self, index: SupportsIndex) -> dict[str, Member]:
        digits = split_index(checked_index(index, self.size), self._sizes)
        return {key: part.decode(digit) for (key, part), digit in zip(self.parts.items(), digits, strict=True)}

    def encode_batch(self, values: Member) -> NDArray[np.int64]:
        return _encode_batch(self.parts.values(), self._values(values), self.size)

    def decode_batch(self, indices: ArrayLike) -> dict[str, Member]:
        digits = split_indices(checked_indices(indices, self.size), self._sizes)
        return {key: part.decode_batch(digits[:, column]) for column, (key, part) in enumerate(self.parts.items())}

    def _values(self, value: Member) -> Iterable[Member]:
        if not isinstance(value, Mapping) or value.keys() != self.parts.keys():
            raise refusal(value, self.space, f"it should be a dict of {', '.join(map(repr, self.parts))}")
        return [value[key] for key in self.parts]


def _whole_numbers(parts: Mapping[str, SpaceCode]) -> list[tuple[str, int, int]] | None:
    """Return key, first number and size of each part if all are Discrete: they are encoded without a call for each."""
    if not all(isinstance(part, DiscreteCode) for part in parts.values()):
        return None
    return [(key, int(part.decode(0)), part.size) for key, part in parts.items()]


def _encode(parts: Iterable[SpaceCode], values: Iterable[Member]) -> int:
    index = 0
    for part, value in zip(parts, values, strict=True):
        index = index * part.size + part.encode(value)
    return index


def _encode_batch(parts: Iterable[SpaceCode], values: Iterable[Member], size: int) -> NDArray[np.int64]:
    check_batchable(size)
    columns = [(part.size, part.encode_batch(value)) for part, value in zip(parts, values, strict=True)]
    lengths = {len(column) for _, column in columns}
    if len(lengths) != 1:
        raise InputError(f"The parts of a batch should have equal lengths of at least 1 (got {sorted(lengths)}).")
    indices = np.zeros(lengths.pop(), np.int64)
    for part_size, column in columns:
        indices *= part_size
        indices += column
    return indices


def space_code(
    space: Space[object],
    bins: BinsGiven | None = None,
    *,
    most: int | None = MOST_STATES,
    spell: Spelling = in_training,
) -> SpaceCode:
    """Return the code of a Discrete, MultiDiscrete, MultiBinary, Box (by bins), or a Tuple or Dict of these.

    `most=None` is for hashed tables: `encode` then returns integers of any length, still exact. `spell` formats bins
    for error messages.
    """
    code = _code(space, iter(settle(list(_boxes(space)), bins, spell)))
    if most is not None and code.size > most:
        raise InputError(
            f"{space_text(space)} has {count_text(code.size)} states, and at most {count_text(most)} can be numbered "
            "here. Use a sparse (hashed) table, which keeps only the visited states"
            + ("." if bins is None else ", or fewer bins.")
        )
    return code


def _boxes(space: Space[object]) -> Iterator[Box]:
    """Yield the Boxes in the order of their digits."""
    if isinstance(space, Box):
        yield space
    elif isinstance(space, spaces.Tuple):
        for part in space.spaces:
            yield from _boxes(part)
    elif isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            yield from _boxes(part)


def _code(space: Space[object], axes: Iterator[list[Axis]]) -> SpaceCode:
    """Return the code of a space, consuming the axes of as many Boxes as it holds."""
    match space:
        case spaces.Discrete():
            return DiscreteCode(space)
        case spaces.MultiDiscrete() | spaces.MultiBinary():
            return ArrayCode(space)
        case Box():
            return BinnedCode(space, next(axes))
        case spaces.Tuple():
            return TupleCode(space, [_code(part, axes) for part in space.spaces])
        case spaces.Dict():
            return DictCode(space, {key: _code(part, axes) for key, part in space.spaces.items()})
    raise InputError(
        f"{space_text(space)} has no numbered states. Tables take Discrete, MultiDiscrete, MultiBinary, "
        "Box (by bins), and Tuple or Dict of these."
    )
