"""Which bins every number of every Box gets, and what to type where they are missing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from gymnasium.spaces import Box

from mosaic.core.errors import InputError
from mosaic.envs.codes.bins import Bins, BinsGiven, Spelling, read_bins

_ENDLESS = 1e30  # envs write the largest float where they mean infinity
_ENDLESS_WHOLE = 2**32  # and the largest integer; below it, products with a number of bins are exact in float64
_FEW = 8  # a list that people would still type
_ADVISED = "8"
_ADVISED_BOUNDED = "8@-10..10"


class Axis(NamedTuple):
    """The bins of one number. Of whole numbers, `span` says how many lie from low to high; else it is high - low."""

    bins: int
    low: float
    high: float
    span: float


def settle(boxes: Sequence[Box], given: BinsGiven | None, spell: Spelling) -> list[list[Axis]]:
    """The axes of each Box. Bins given as a list go to the numbers of all Boxes in order."""
    bounds = [_bounds(box) for box in boxes]
    flat = [one for of_box in bounds for one in of_box]
    example = spell(_advice(flat)) if flat else ""
    if given is None and flat:
        raise InputError(
            f"A table has no row for every value of a Box: cut {_numbers(len(flat))} into bins, for example {example}"
        )
    each = iter(_one_each(given, len(flat), example))
    axes = [_axis(next(each), place, one, example) for place, one in enumerate(flat)]
    rest = iter(axes)
    return [list(islice(rest, len(of_box))) for of_box in bounds]


class _Bounds(NamedTuple):
    low: float
    high: float
    whole: bool

    @property
    def endless(self) -> bool:
        return max(-self.low, self.high) >= (_ENDLESS_WHOLE if self.whole else _ENDLESS)


def _bounds(box: Box) -> list[_Bounds]:
    whole = box.low.dtype.kind in "iub"
    kind = np.float64 if box.low.dtype.kind in "fu" else np.int64  # uint64 does not fit into int64
    low, high = (end.ravel().astype(kind).tolist() for end in (box.low, box.high))
    return [_Bounds(*ends, whole) for ends in zip(low, high, strict=True)]


def _one_each(given: BinsGiven | None, total: int, example: str) -> Sequence[Bins]:
    if given is None:
        return []
    if isinstance(given, str) or not isinstance(given, Sequence):
        return [read_bins(given)] * total
    if not total:
        raise InputError(f"bins: {len(given)} given, but the space holds no Box to cut. Leave them out.")
    if len(given) != total:
        raise InputError(
            f"bins: {len(given)} given for {_numbers(total)} in Boxes. Give one for all, or one for each, "
            f"for example {example}"
        )
    return [read_bins(one) for one in given]


def _axis(bins: Bins, place: int, own: _Bounds, example: str) -> Axis:
    low, high, whole = narrow = _Bounds(max(own.low, bins.low), min(own.high, bins.high), own.whole)
    if narrow.endless:
        raise InputError(
            f"bins: number {place} (counted from 0) has no bounds, so its bins need some, for example {example}"
        )
    if whole:
        low, high = math.ceil(low), math.floor(high)
    if low > high:
        raise InputError(
            f"bins: number {place} (counted from 0) goes from {own.low:g} to {own.high:g}, "
            f"where the bins {bins.low:g}..{bins.high:g} hold nothing."
        )
    span = high - low + 1 if whole else high - low
    if whole:
        return Axis(min(bins.count, int(span)), low, high, span)
    return Axis(bins.count, low, high, span) if span else Axis(1, low, high, 1.0)


def _advice(bounds: Sequence[_Bounds]) -> list[str]:
    if len(bounds) > _FEW:
        return [_ADVISED_BOUNDED if any(one.endless for one in bounds) else _ADVISED]
    return [_ADVISED_BOUNDED if one.endless else _ADVISED for one in bounds]


def _numbers(count: int) -> str:
    return "one number" if count == 1 else f"{count} numbers"
