"""Construction of the code of a space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gymnasium import spaces
from gymnasium.spaces import Box, Space

from mosaic.core.errors import InputError
from mosaic.envs.codes.box import Axis, BinnedCode, BinsGiven, Spelling, in_training, settle
from mosaic.envs.codes.discrete import ArrayCode, DiscreteCode
from mosaic.envs.codes.nested import DictCode, TupleCode
from mosaic.envs.codes.space_code import MOST_STATES, SpaceCode, count_text, space_text


def space_code(
    space: Space[Any],
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


def _boxes(space: Space[Any]) -> Iterator[Box]:
    """Yield the Boxes in the order of their digits."""
    if isinstance(space, Box):
        yield space
    elif isinstance(space, spaces.Tuple):
        for part in space.spaces:
            yield from _boxes(part)
    elif isinstance(space, spaces.Dict):
        for part in space.spaces.values():
            yield from _boxes(part)


def _code(space: Space[Any], axes: Iterator[list[Axis]]) -> SpaceCode:
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
