"""Mixed-radix numbers: conversion between digits and an index; the first digit is the most significant."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.codes.space_code import check_batchable, product


def split(index: int, counts: Sequence[int]) -> list[int]:
    digits = []
    for count in reversed(counts):
        index, digit = divmod(index, count)
        digits.append(digit)
    return digits[::-1]


def join_batch(digits: NDArray[np.int64], counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the index of every row."""
    check_batchable(product(counts))
    indices = np.zeros(len(digits), np.int64)
    for column, count in enumerate(counts):
        indices *= count
        indices += digits[:, column]
    return indices


def split_batch(indices: NDArray[np.int64], counts: Sequence[int]) -> NDArray[np.int64]:
    """Return the digits of every index, one row each."""
    digits = np.empty((len(indices), len(counts)), np.int64)
    for column in reversed(range(len(counts))):
        indices, digits[:, column] = np.divmod(indices, counts[column])
    return digits
