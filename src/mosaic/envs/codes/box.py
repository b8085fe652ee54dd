"""Bins for Box spaces, and the code that they give."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple, SupportsIndex, TypeAlias

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike, NDArray

from mosaic.core.errors import InputError, shown
from mosaic.envs.codes.space_code import (
    Member,
    checked_index,
    checked_indices,
    join_digits,
    product,
    refusal,
    split_index,
    split_indices,
)

MOST_BINS = 1_000_000
_FORM = re.compile(r"(?P<count>[^@]+)(@(?P<low>.+?)\.\.(?P<high>.+))?")


@dataclass(frozen=True, slots=True)
class Bins:
    """N bins of equal width; values outside the bounds are clipped.

    Bounds that the space has itself need not be given; given ones can only narrow them.
    """

    count: int
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if type(self.count) is not int or not 1 <= self.count <= MOST_BINS:
            raise InputError(f"bins: {shown(self.count)} is not a number of bins from 1 to {MOST_BINS:,}.")
        if not self.low < self.high:
            raise InputError(f"bins: the lower bound must be below the upper one (got {self.low:g}..{self.high:g}).")


OneBins: TypeAlias = int | str | Bins
BinsGiven: TypeAlias = OneBins | Sequence[OneBins]  # one for all numbers of all Boxes, or one for each
Spelling: TypeAlias = Callable[[Sequence[str]], str]  # formats bins as the user would type them, in order


def read_bins(given: OneBins) -> Bins:
    """Parse `8`, or `8@-3..3` for eight bins from -3 to 3."""
    if isinstance(given, Bins):
        return given
    if not isinstance(given, str):
        return Bins(given)
    form = _FORM.fullmatch(given.strip())
    try:
        if form is None:
            raise ValueError
        count = int(form["count"])
        bounds = (float(form["low"]), float(form["high"])) if form["low"] is not None else (-math.inf, math.inf)
    except ValueError:
        raise InputError(
            f"bins: {shown(given)} is neither a number of bins, such as 8, nor one with bounds, such as 8@-3..3."
        ) from None
    return Bins(count, *bounds)


def in_training(entries: Sequence[str]) -> str:
    """Format as a command-line option for a worker's own setting."""
    plain = all(entry.isdigit() for entry in entries)
    words = [entry if entry.isdigit() else f'"{entry}"' for entry in entries]
    setting = f"training.params.bins={words[0] if len(words) == 1 else '[' + ','.join(words) + ']'}"
    return f"--set {setting}" if plain else f"--set '{setting}'"


UNBOUNDED = 1e30  # envs write the largest float for infinity
_UNBOUNDED_WHOLE = 2**32  # and the largest integer; below it, products with a number of bins are exact in float64
_FEW = 8  # a list that people would still type
_ADVISED = "8"
_ADVISED_BOUNDED = "8@-10..10"


class Axis(NamedTuple):
    """The bins of one number. `span` is high - low; for whole numbers, the count from low to high."""

    bins: int
    low: float
    high: float
    span: float


def settle(boxes: Sequence[Box], given: BinsGiven | None, spell: Spelling) -> list[list[Axis]]:
    """Return the axes of each Box; bins given as a list go to the numbers of all Boxes in order."""
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
        return max(-self.low, self.high) >= (_UNBOUNDED_WHOLE if self.whole else UNBOUNDED)


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


class BinnedCode:
    """One digit for each number: its bin. A number outside the bounds is in the first or the last bin.

    Whole numbers never get more bins than there are numbers; with as many, the code is exact.
    """

    __slots__ = ("_axes", "_count", "_high", "_low", "_span", "_whole", "counts", "size", "space")

    def __init__(self, space: Box, axes: Sequence[Axis]) -> None:
        self.space = space
        self.counts = tuple(axis.bins for axis in axes)
        self.size = product(self.counts)
        self._axes = tuple(axes)
        self._count = np.array(self.counts, np.int64)
        self._low = np.array([axis.low for axis in axes], np.float64)
        self._high = np.array([axis.high for axis in axes], np.float64)
        self._span = np.array([axis.span for axis in axes], np.float64)
        self._whole = space.low.dtype.kind in "iub"

    def edges(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return low, high and span of each number: its bin is (clipped number - low) * count / span, rounded down."""
        return self._low, self._high, self._span

    def encode(self, value: Member) -> int:
        index = 0
        # for the few numbers that a table can handle, a loop is several times faster than array arithmetic
        for number, (count, low, high, span) in zip(self._numbers(value), self._axes, strict=True):
            if number <= low:
                digit = 0
            elif number >= high:
                digit = count - 1
            elif number == number:  # multiply before dividing: whole numbers then meet their edges exactly
                digit = int((number - low) * count / span)
                if digit == count:  # the quotient was rounded up
                    digit -= 1
            else:
                raise refusal(value, self.space, "NaN lies in no bin")
            index = index * count + digit
        return index

    def decode(self, index: SupportsIndex) -> NDArray[np.generic]:
        digits = np.array([split_index(checked_index(index, self.size), self.counts)], np.int64)
        return self._middle(digits).reshape(self.space.shape)

    def encode_batch(self, values: Member) -> NDArray[np.int64]:
        array = np.asarray(values)
        if not array.ndim or array.shape[1:] != self.space.shape or array.dtype.kind not in "iubf":
            raise refusal(values, self.space, f"a batch should hold numbers in the shape (N, *{self.space.shape})")
        numbers = array.reshape(len(array), len(self.counts)).astype(np.float64)
        wrong = np.isnan(numbers).any(axis=1)
        if wrong.any():
            raise refusal(array[wrong][0], self.space, "NaN lies in no bin")
        inside = np.clip(numbers, self._low, self._high) - self._low
        digits = np.minimum((inside * self._count / self._span).astype(np.int64), self._count - 1)
        return join_digits(digits, self.counts)

    def decode_batch(self, indices: ArrayLike) -> NDArray[np.generic]:
        return self._middle(split_indices(checked_indices(indices, self.size), self.counts))

    def _middle(self, digits: NDArray[np.int64]) -> NDArray[np.generic]:
        if self._whole:
            span, low = self._span.astype(np.int64), self._low.astype(np.int64)
            first = -(-digits * span // self._count)  # the smallest and the largest whole number of the bin
            last = -(-(digits + 1) * span // self._count) - 1
            middle: NDArray[np.generic] = low + (first + last) // 2
        else:
            fixed = self._low == self._high
            middle = np.where(fixed, self._low, self._low + (digits + 0.5) * self._span / self._count)
        return middle.astype(self.space.dtype).reshape(len(digits), *self.space.shape)

    def _numbers(self, value: Member) -> list[float]:
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different length
            array = np.empty(0, object)
        if array.shape != self.space.shape or array.dtype.kind not in "iubf":
            raise refusal(value, self.space, f"it should be an array of numbers in the shape {self.space.shape}")
        numbers: list[float] = array.ravel().tolist()
        return numbers
