"""Masks of actions with several parts: the flags of all parts in one array, and the indices that they allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeGuard

import numpy as np
from gymnasium.spaces import MultiBinary
from numpy.typing import NDArray

from mosaic.core.errors import InputError, shown
from mosaic.core.turn import Mask
from mosaic.envs.codes.discrete import ArrayCode
from mosaic.envs.codes.nested import DictCode, TupleCode
from mosaic.envs.codes.space_code import Member, SpaceCode, count_text, space_text, split_index

_MOST_ENTRIES = 1 << 26  # a mask is made for every step


def flatten_mask(code: SpaceCode, mask: object) -> Mask:
    """Return the mask over `range(code.size)`: an index is allowed if all of its digits are.

    The mask of several digits is a tuple (for a Dict: a dict) with the mask of each part, or all of these concatenated
    in one array. None allows everything, at any depth.
    """
    if code.size > _MOST_ENTRIES:
        raise InputError(
            f"A mask over {space_text(code.space)} would have {count_text(code.size)} entries, "
            f"and {count_text(_MOST_ENTRIES)} is the most: give the action fewer choices."
        )
    allowed = np.ones(1, np.bool_)
    for digit in _digits(code, mask):
        allowed = np.logical_and.outer(allowed, digit).ravel()
    return allowed


def join_mask(code: SpaceCode, mask: object) -> Mask:
    """Return the flags of all parts of the action, concatenated, from any form that `flatten_mask` takes."""
    return np.concatenate(list(_digits(code, mask)))


def forbidden_part(code: SpaceCode, joined: Mask, action: Member) -> int | None:
    """Return the index of the first part whose choice a joined mask forbids, or None."""
    choices = split_index(code.encode(action), code.counts)
    for part, (digit, flags) in enumerate(zip(choices, _cut(code, joined), strict=True)):
        if not flags[digit]:
            return part
    return None


def draw_legal(code: SpaceCode, joined: Mask, choose: Callable[[list[int]], int]) -> Member:
    """Return an action whose parts `choose` picks from the choices that a joined mask allows."""
    index = 0
    for count, flags in zip(code.counts, _cut(code, joined), strict=True):
        index = index * count + choose(np.flatnonzero(flags).tolist())
    return code.decode(index)


def _digits(code: SpaceCode, mask: object) -> Iterator[Mask]:
    """Yield the mask of each digit, first to last."""
    if mask is None:
        for count in code.counts:
            yield np.ones(count, np.bool_)
    elif isinstance(code.space, MultiBinary) and _is_fixing(mask, code.space.shape):
        for bit in np.ravel(mask):
            yield np.array([bit != 1, bit != 0])
    elif isinstance(code, DictCode) and isinstance(mask, Mapping):
        if mask.keys() != code.parts.keys():
            raise _refusal(code, mask, f"it should be a dict of {', '.join(map(repr, code.parts))}")
        for key, part in code.parts.items():
            yield from _digits(part, mask[key])
    elif isinstance(code, TupleCode) and _is_nested(mask):
        if len(mask) != len(code.parts):
            raise _refusal(code, mask, f"it should be a tuple of {len(code.parts)}")
        for part, own in zip(code.parts, mask, strict=True):
            yield from _digits(part, own)
    elif isinstance(code, ArrayCode) and _is_nested(mask):
        yield from _of_array(code, mask)
    else:
        yield from _cut(code, mask)


def _is_fixing(mask: object, shape: tuple[int, ...]) -> TypeGuard[NDArray[np.integer]]:
    """Return whether the mask has Gymnasium's form for MultiBinary: 0 and 1 fix a bit, 2 leaves it free."""
    if not isinstance(mask, np.ndarray) or mask.shape != shape or mask.dtype.kind not in "iu":
        return False
    return bool(((mask == 0) | (mask == 1) | (mask == 2)).all())


def _is_nested(mask: object) -> TypeGuard[Sequence[object]]:
    """Return whether the mask holds masks, not flags."""
    if isinstance(mask, np.ndarray):
        return mask.ndim > 1  # masks of equal length that were stacked on the way
    return isinstance(mask, tuple | list) and any(
        part is None or isinstance(part, tuple | list | Mapping) or np.ndim(part) > 0 for part in mask
    )


def _of_array(code: ArrayCode, mask: object) -> Iterator[Mask]:
    """Yield masks from nested tuples, one level per axis, as Gymnasium samples them."""
    rows: list[object] = [mask]
    for length in code.space.shape:
        inner: list[object] = []
        for row in rows:
            if not isinstance(row, tuple | list | np.ndarray) or len(row) != length:
                raise _refusal(code, mask, f"it should be masks in tuples of the shape {code.space.shape}")
            inner.extend(row)
        rows = inner
    for count, own in zip(code.counts, rows, strict=True):
        yield np.ones(count, np.bool_) if own is None else _flags(code, own, count)


def _cut(code: SpaceCode, mask: object) -> Iterator[Mask]:
    flags = _flags(code, mask, sum(code.counts))
    start = 0
    for count in code.counts:
        yield flags[start : start + count]
        start += count


def _flags(code: SpaceCode, mask: object, length: int) -> Mask:
    try:
        flags = np.asarray(mask)
    except ValueError:  # masks of different length
        flags = np.empty(0, object)
    if flags.shape != (length,) or not (flags.dtype.kind == "b" or _is_binary(flags)):
        sizes = f" ({' + '.join(map(str, code.counts))})" if 1 < len(code.counts) <= 12 else ""
        demand = f"it should be {length} flags" if length < sum(code.counts) else f"it should be {length} flags{sizes}"
        raise _refusal(code, mask, demand)
    return flags.astype(np.bool_)


def _is_binary(flags: NDArray[np.generic]) -> bool:
    return flags.dtype.kind in "iuf" and bool(((flags == 0) | (flags == 1)).all())


def _refusal(code: SpaceCode, mask: object, demand: str) -> InputError:
    return InputError(f"{shown(mask)} is not a mask of {space_text(code.space)}: {demand}.")
