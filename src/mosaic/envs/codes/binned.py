"""How a Box becomes one index: by bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mosaic.envs.codes import radix
from mosaic.envs.codes.box import Axis
from mosaic.envs.codes.space_code import checked_index, checked_indices, product, refusal


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

    def encode(self, value: Any) -> int:
        index = 0
        # for the few numbers that a table can bear, a loop is several times faster than array arithmetic
        for number, (count, low, high, span) in zip(self._numbers(value), self._axes, strict=True):
            if number <= low:
                digit = 0
            elif number >= high:
                digit = count - 1
            elif number == number:  # multiplied first and then divided: whole numbers meet their edges exactly
                digit = int((number - low) * count / span)
                if digit == count:  # the quotient was rounded up
                    digit -= 1
            else:
                raise refusal(value, self.space, "NaN lies in no bin")
            index = index * count + digit
        return index

    def decode(self, index: Any) -> NDArray[Any]:
        digits = np.array([radix.split(checked_index(index, self.size), self.counts)], np.int64)
        return self._middle(digits).reshape(self.space.shape)

    def encode_batch(self, values: Any) -> NDArray[np.int64]:
        array = np.asarray(values)
        if not array.ndim or array.shape[1:] != self.space.shape or array.dtype.kind not in "iubf":
            raise refusal(values, self.space, f"a batch should hold numbers in the shape (N, *{self.space.shape})")
        numbers = array.reshape(len(array), len(self.counts)).astype(np.float64)
        wrong = np.isnan(numbers).any(axis=1)
        if wrong.any():
            raise refusal(array[wrong][0], self.space, "NaN lies in no bin")
        inside = np.clip(numbers, self._low, self._high) - self._low
        digits = np.minimum((inside * self._count / self._span).astype(np.int64), self._count - 1)
        return radix.join_batch(digits, self.counts)

    def decode_batch(self, indices: Any) -> NDArray[Any]:
        return self._middle(radix.split_batch(checked_indices(indices, self.size), self.counts))

    def _middle(self, digits: NDArray[np.int64]) -> NDArray[Any]:
        if self._whole:
            span, low = self._span.astype(np.int64), self._low.astype(np.int64)
            first = -(-digits * span // self._count)  # the least and the greatest whole number of the bin
            last = -(-(digits + 1) * span // self._count) - 1
            middle: NDArray[Any] = low + (first + last) // 2
        else:
            fixed = self._low == self._high
            middle = np.where(fixed, self._low, self._low + (digits + 0.5) * self._span / self._count)
        return middle.astype(self.space.dtype).reshape(len(digits), *self.space.shape)

    def _numbers(self, value: Any) -> list[float]:
        try:
            array = np.asarray(value)
        except ValueError:  # rows of different length
            array = np.empty(0, object)
        if array.shape != self.space.shape or array.dtype.kind not in "iubf":
            raise refusal(value, self.space, f"it should be an array of numbers in the shape {self.space.shape}")
        numbers: list[float] = array.ravel().tolist()
        return numbers
