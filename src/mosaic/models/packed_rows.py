"""Packed observation rows: one byte for each number of an image, four for any other number.

Envs give images as bytes, and rows hold them as float32 between 0 and 1. A buffer of many rows keeps the bytes: a
quarter of the memory, and unpacking gives the same float32 numbers again, bit for bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.encoding import BRIGHTEST, RowCode

FLOAT_BYTES = 4


class Stretch(NamedTuple):
    """A range of columns that are packed alike."""

    start: int
    stop: int
    picture: bool
    at: int  # its first byte in a packed row

    @property
    def size(self) -> int:
        """Bytes of the packed columns."""
        return (self.stop - self.start) * (1 if self.picture else FLOAT_BYTES)


@dataclass(frozen=True, slots=True)
class RowPacking:
    """Layout of packed rows."""

    stretches: tuple[Stretch, ...]

    @property
    def width(self) -> int:
        """Number of columns of a row."""
        return self.stretches[-1].stop

    @property
    def size(self) -> int:
        """Bytes of a packed row."""
        return self.stretches[-1].at + self.stretches[-1].size

    def pack(self, rows: NDArray[np.float32]) -> NDArray[np.uint8]:
        packed = np.empty((len(rows), self.size), np.uint8)
        for start, stop, picture, at in self.stretches:
            columns = rows[:, start:stop]
            if picture:
                # The product is close to a whole number; adding a half before truncation rounds it.
                np.copyto(packed[:, at : at + stop - start], columns * BRIGHTEST + np.float32(0.5), casting="unsafe")
            else:
                packed[:, at : at + FLOAT_BYTES * (stop - start)] = np.ascontiguousarray(columns).view(np.uint8)
        return packed

    def unpack(self, packed: NDArray[np.uint8]) -> NDArray[np.float32]:
        rows = np.empty((len(packed), self.width), np.float32)
        for stretch in self.stretches:
            kept, columns = packed[:, stretch.at : stretch.at + stretch.size], rows[:, stretch.start : stretch.stop]
            if stretch.picture:
                np.divide(kept, BRIGHTEST, out=columns)
            else:
                columns[:] = np.ascontiguousarray(kept).view(np.float32)
        return rows

    def first(self, width: int) -> RowPacking:
        """Return the layout of the first columns alone; they are in the first bytes."""
        kept = [stretch for stretch in self.stretches if stretch.start < width]
        return RowPacking((*kept[:-1], kept[-1]._replace(stop=min(kept[-1].stop, width))))

    def repeated(self, times: int) -> RowPacking:
        """Return the layout of this many rows side by side."""
        return _packing(np.tile(self._pictures(), times))

    def _pictures(self) -> NDArray[np.bool_]:
        return np.concatenate([np.full(stop - start, picture) for start, stop, picture, _ in self.stretches])


def row_packing(codes: Sequence[RowCode]) -> RowPacking | None:
    """Return the layout for rows of these codes; None if they hold no images.

    Where the codes differ, a column is packed as a byte only if it is a byte for all of them. Narrower rows end in
    zeros, which a byte can hold as well.
    """
    pictures = np.ones(max(code.width for code in codes), bool)
    for code in codes:
        for part in code.parts:
            if not part.picture:
                pictures[part.start : part.start + part.size] = False
    return _packing(pictures) if pictures.any() else None


def _packing(pictures: NDArray[np.bool_]) -> RowPacking:
    edges = [0, *(np.flatnonzero(np.diff(pictures)) + 1).tolist(), len(pictures)]
    stretches: list[Stretch] = []
    for start, stop in pairwise(edges):
        at = stretches[-1].at + stretches[-1].size if stretches else 0
        stretches.append(Stretch(start, stop, bool(pictures[start]), at))
    return RowPacking(tuple(stretches))


class PackedRows:
    """A buffer of rows that is written and read as float32 but stores packed bytes."""

    def __init__(self, packing: RowPacking, data: NDArray[np.uint8]) -> None:
        self.packing, self.data = packing, data

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.data), self.packing.width

    @property
    def nbytes(self) -> int:
        return self.data.nbytes

    def __len__(self) -> int:
        return len(self.data)

    def __setitem__(self, index: Any, rows: NDArray[np.float32]) -> None:
        self.data[index] = self.packing.pack(rows)

    def __getitem__(self, index: Any) -> NDArray[np.float32]:
        return self.packing.unpack(self.data[index])

    def first(self, width: int) -> PackedRows:
        """Return the first columns; the bytes are shared."""
        packing = self.packing.first(width)
        return PackedRows(packing, self.data[:, : packing.size])


Rows: TypeAlias = NDArray[np.float32] | PackedRows


def zero_rows(rows: int, width: int, packing: RowPacking | None = None) -> Rows:
    if packing is None:
        return np.zeros((rows, width), np.float32)
    return PackedRows(packing, np.zeros((rows, packing.size), np.uint8))


def row_bytes(width: int, packing: RowPacking | None) -> int:
    """Return the size of one row in such a buffer."""
    return FLOAT_BYTES * width if packing is None else packing.size
