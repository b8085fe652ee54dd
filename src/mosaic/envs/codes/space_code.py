"""The SpaceCode protocol and helpers of its implementations: checks, texts, mixed-radix numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from operator import index as as_int
from typing import Any, Protocol, SupportsIndex, TypeAlias

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import ArrayLike, NDArray

from mosaic.core.errors import InputError, shown

Member: TypeAlias = Any  # a member of a space, or a batch of members; codes refuse anything else
MOST_STATES = int(np.iinfo(np.int64).max)  # so that every index, and the size itself, fits into int64


class SpaceCode(Protocol):
    """Numbering of the members of a space, 0..size-1; the first part is the most significant (C order).

    Batches have the layout of Gymnasium's vector envs: arrays with one more axis in front, for Tuple and Dict spaces a
    tuple or dict of batches.
    """

    @property
    def space(self) -> Space[object]: ...

    @property
    def size(self) -> int: ...

    @property
    def counts(self) -> tuple[int, ...]: ...  # choices of each digit of the index, first to last; their product is size

    def encode(self, value: Member) -> int: ...

    def decode(self, index: SupportsIndex) -> Member: ...  # for a Box: the middle of its bins

    def encode_batch(self, values: Member) -> NDArray[np.int64]: ...

    def decode_batch(self, indices: ArrayLike) -> Member: ...


def refusal(value: Member, space: Space[object], demand: str) -> InputError:
    return InputError(f"{shown(value)} is not in {space_text(space)}: {demand}.")


def space_text(space: Space[object]) -> str:
    """Return the space as one line, shortened if long."""
    text = " ".join(str(space).split())
    return text if len(text) <= 120 else f"{text[:110]} …"


def count_text(count: int) -> str:
    """Return the count as text; Python refuses to print very long integers."""
    return f"{count:,}" if count < 10**24 else f"about 10^{math.log10(count):.0f}"


def checked_index(index: SupportsIndex, size: int) -> int:
    try:
        number = as_int(index)
    except TypeError:
        raise InputError(f"{shown(index)} is not an index: it should be a whole number.") from None
    if not 0 <= number < size:
        raise InputError(f"{shown(index)} is not an index from 0 to {count_text(size - 1)}.")
    return number


def checked_indices(indices: ArrayLike, size: int) -> NDArray[np.int64]:
    check_batchable(size)
    array = np.asarray(indices)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise InputError(f"{shown(indices)} is not a row of indices.")
    wrong = (array < 0) | (array >= size)
    if wrong.any():
        raise InputError(f"{array[wrong][0]} is not an index from 0 to {count_text(size - 1)}.")
    return array.astype(np.int64)


def check_batchable(size: int) -> None:
    if size > MOST_STATES:
        raise InputError(
            f"{count_text(size)} states do not fit in 64-bit numbers, so they cannot be encoded "
            "in batches. Encode them one by one: 'encode' and 'decode' take integers of any length."
        )


def product(counts: Iterable[int]) -> int:
    """Multiply like `math.prod`, but quickly for an image's many thousand equal counts."""
    how_often: dict[int, int] = {}
    for count in counts:
        how_often[count] = how_often.get(count, 0) + 1
    return math.prod(count**times for count, times in how_often.items())


def split_index(index: int, counts: Sequence[int]) -> list[int]:
    """Return the digits of an index in mixed radix; the first is the most significant."""
    digits = []
    for count in reversed(counts):
        index, digit = divmod(index, count)
        digits.append(digit)
    return digits[::-1]


def join_digits(digits: NDArray[np.int64], counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the index of every row."""
    check_batchable(product(counts))
    indices = np.zeros(len(digits), np.int64)
    for column, count in enumerate(counts):
        indices *= count
        indices += digits[:, column]
    return indices


def split_indices(indices: NDArray[np.int64], counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the digits of every index, one row each."""
    digits = np.empty((len(indices), len(counts)), np.int64)
    for column in reversed(range(len(counts))):
        indices, digits[:, column] = np.divmod(indices, counts[column])
    return digits
