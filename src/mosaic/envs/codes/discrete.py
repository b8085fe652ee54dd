"""Codes of whole numbers, alone or in arrays of fixed shape."""

from __future__ import annotations

from operator import index as as_int
from typing import SupportsIndex

import numpy as np
from gymnasium.spaces import Discrete, MultiBinary, MultiDiscrete
from numpy.typing import ArrayLike, NDArray

from mosaic.core.errors import InputError
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


class DiscreteCode:
    """Code of one whole number: a Python integer, NumPy integer or zero-dimensional array."""

    __slots__ = ("_start", "counts", "size", "space")

    def __init__(self, space: Discrete[np.integer]) -> None:
        self.space = space
        self.size = int(space.n)
        self.counts = (self.size,)
        self._start = int(space.start)

    def encode(self, value: Member) -> int:
        try:
            digit = as_int(value) - self._start
        except TypeError:
            raise self._refusal(value) from None
        if 0 <= digit < self.size:
            return digit
        raise self._refusal(value)

    def decode(self, index: SupportsIndex) -> int:
        return checked_index(index, self.size) + self._start

    def encode_batch(self, values: Member) -> NDArray[np.int64]:
        array = np.asarray(values)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise self._refusal(values, "a row of whole numbers")
        digits = array.astype(np.int64) - self._start
        wrong = (digits < 0) | (digits >= self.size)
        if wrong.any():
            raise self._refusal(array[wrong][0].item())
        return digits

    def decode_batch(self, indices: ArrayLike) -> NDArray[np.int64]:
        return checked_indices(indices, self.size) + self._start

    def _refusal(self, value: Member, what: str = "a whole number") -> InputError:
        demand = f"it should be {what} from {self._start} to {self._start + self.size - 1}"
        return refusal(value, self.space, demand)


class ArrayCode:
    """Code of a MultiDiscrete or MultiBinary: one digit for each number, in C order."""

    __slots__ = ("_array_starts", "_starts", "counts", "size", "space")

    def __init__(self, space: MultiDiscrete | MultiBinary) -> None:
        self.space = space
        if isinstance(space, MultiBinary):
            shape = space.shape
            counts, starts = np.full(shape, 2), np.zeros(shape, np.int64)
        else:
            counts, starts = space.nvec, space.start
        self.counts: tuple[int, ...] = tuple(counts.ravel().tolist())
        self._starts: tuple[int, ...] = tuple(starts.ravel().tolist())
        self._array_starts = np.array(self._starts, np.int64)
        self.size = product(self.counts)

    def encode(self, value: Member) -> int:
        index = 0
        for number, start, count in zip(self._numbers(value), self._starts, self.counts, strict=True):
            digit = number - start
            if not 0 <= digit < count:
                raise refusal(value, self.space, f"{number} should be from {start} to {start + count - 1}")
            index = index * count + digit
        return index

    def decode(self, index: SupportsIndex) -> NDArray[np.generic]:
        digits = split_index(checked_index(index, self.size), self.counts)
        numbers = [digit + start for digit, start in zip(digits, self._starts, strict=True)]
        return np.array(numbers, dtype=self.space.dtype).reshape(self.space.shape)

    def encode_batch(self, values: Member) -> NDArray[np.int64]:
        array = np.asarray(values)
        if array.shape[1:] != self.space.shape or not array.ndim or array.dtype.kind not in "iub":
            raise refusal(
                values, self.space, f"a batch should hold whole numbers in the shape (N, *{self.space.shape})"
            )
        digits = array.reshape(len(array), len(self.counts)).astype(np.int64) - self._array_starts
        wrong = ((digits < 0) | (digits >= np.array(self.counts))).any(axis=1)
        if wrong.any():
            self.encode(array[wrong][0])  # raises an error that names the wrong number of the first wrong row
        return join_digits(digits, self.counts)

    def decode_batch(self, indices: ArrayLike) -> NDArray[np.generic]:
        checked = checked_indices(indices, self.size)
        numbers = split_indices(checked, self.counts) + self._array_starts
        return numbers.astype(self.space.dtype).reshape(len(checked), *self.space.shape)

    def _numbers(self, value: Member) -> list[int]:
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different length
            array = np.empty(0)
        if array.shape != self.space.shape or array.dtype.kind not in "iub":
            raise refusal(value, self.space, f"it should be an array of whole numbers in the shape {self.space.shape}")
        numbers: list[int] = array.ravel().tolist()
        return numbers
