"""Columns of numbers built from a list of events.

Events of a run look alike, so they are grouped by their keys and transposed with `zip`, not walked value by value in
Python.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaic.telemetry.events.event import AXES, FRAME, MetricEvent, prefix

Rows = NDArray[np.uint32]
Values = NDArray[np.float64]
Places = list[int] | None  # None: everywhere
T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
_NUMBERS = {int, float, bool}
_NUMBERS_OR_NULL = _NUMBERS | {type(None)}


class Cells(NamedTuple):
    """Numbers present in one column, and their rows in ascending order."""

    rows: Rows
    values: Values


class Columns(NamedTuple):
    kinds: list[str]
    frame: dict[str, Values]
    """attempt and the axes: one value for every row, NaN where an event has none."""
    cells: dict[str, Cells]
    """All other numbers, by name."""


class Collector:
    """Builder of columns; values may be added in any order."""

    def __init__(self, kinds: list[str]) -> None:
        self._kinds = kinds
        self._frame = {name: np.full(len(kinds), np.nan) for name in ("attempt", *AXES)}
        self._parts: dict[str, list[Cells]] = defaultdict(list)

    def place(self, key: str, cells: Cells) -> None:
        """Set a field that locates its event."""
        if key in self._frame:
            if len(cells.rows) == len(self._kinds):
                self._frame[key] = cells.values
            else:
                self._frame[key][cells.rows] = cells.values

    def add(self, name: str, cells: Cells) -> None:
        if len(cells.rows):
            self._parts[name].append(cells)

    def columns(self) -> Columns:
        return Columns(self._kinds, self._frame, {name: _joined(parts) for name, parts in self._parts.items()})


def transpose(events: Sequence[MetricEvent]) -> Columns:
    """Turn events into columns; rows count from 0."""
    kinds = list(map(itemgetter("kind"), events))
    collector = Collector(kinds)
    rows = np.arange(len(events), dtype=np.uint32)
    for kind, places in grouped(kinds):
        for key, there, values in _turned(rows_at(rows, places), items_at(events, places)):
            if key in FRAME:
                collector.place(key, _numbers(there, values))
            else:
                _collect(prefix(kind) + key, there, values, collector)
    return collector.columns()


def stacked(parts: Sequence[Columns]) -> Columns:
    """Concatenate columns vertically."""
    starts = np.cumsum([0, *(len(part.kinds) for part in parts)], dtype=np.uint32)
    found: dict[str, list[Cells]] = defaultdict(list)
    for start, part in zip(starts, parts, strict=False):
        for name, (rows, values) in part.cells.items():
            found[name].append(Cells(rows + start, values))
    return Columns(
        list(chain.from_iterable(part.kinds for part in parts)),
        {name: np.concatenate([part.frame[name] for part in parts]) for name in parts[0].frame},
        {
            name: Cells(np.concatenate([cell.rows for cell in cells]), np.concatenate([cell.values for cell in cells]))
            for name, cells in found.items()
        },
    )


def number_cells(rows: Rows, values: Sequence[int | float | None]) -> Cells:
    """Return the cells that hold a number; null does not."""
    try:
        numbers = np.array(values, np.float64)  # null becomes NaN
    except OverflowError:
        numbers = np.array([_float(value) for value in values])
    return finite_cells(rows, numbers)


def finite_cells(rows: Rows, numbers: Values) -> Cells:
    there = np.isfinite(numbers)
    return Cells(rows, numbers) if there.all() else Cells(rows[there], numbers[there])


def grouped(keys: Sequence[K]) -> list[tuple[K, Places]]:
    """Return each key with the places where it occurs."""
    if keys and keys.count(keys[0]) == len(keys):
        return [(keys[0], None)]
    places: dict[K, list[int]] = defaultdict(list)
    for place, key in enumerate(keys):
        places[key].append(place)
    return list(places.items())


def rows_at(rows: Rows, places: Places) -> Rows:
    return rows if places is None else rows[places]


def items_at(items: Sequence[T], places: Places) -> Sequence[T]:
    return items if places is None else [items[place] for place in places]


def _collect(name: str, rows: Rows, values: tuple[Any, ...], collector: Collector) -> None:
    """Add the numbers among the values, and those nested in dicts, to the collector."""
    types = set(map(type, values))
    if not types.isdisjoint(_NUMBERS):
        collector.add(name, _numbers(rows, values))
    if dict in types:
        places = None if types == {dict} else [place for place, value in enumerate(values) if type(value) is dict]
        for key, there, inner in _turned(rows_at(rows, places), items_at(values, places)):
            _collect(f"{name}/{key}", there, inner, collector)


def _turned(rows: Rows, dicts: Sequence[Any]) -> Iterator[tuple[str, Rows, tuple[Any, ...]]]:
    """Yield each key with its values and their rows, once for every set of keys that occurs."""
    for shape, places in grouped(list(map(tuple, dicts))):
        there = rows_at(rows, places)
        for key, values in zip(shape, zip(*map(dict.values, items_at(dicts, places)), strict=True), strict=True):
            yield key, there, values


def _numbers(rows: Rows, values: tuple[Any, ...]) -> Cells:
    if not set(map(type, values)) <= _NUMBERS_OR_NULL:
        values = tuple(value if type(value) in _NUMBERS else None for value in values)
    return number_cells(rows, values)


def _float(value: int | float | None) -> float:
    try:
        return math.nan if value is None else float(value)
    except OverflowError:
        return math.nan


def _joined(parts: list[Cells]) -> Cells:
    if len(parts) == 1:
        return parts[0]
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    rows, values = rows[order], np.concatenate([part.values for part in parts])[order]
    last = np.append(rows[1:] != rows[:-1], True)  # {"a/b": 1, "a": {"b": 2}} names one cell twice
    return Cells(rows[last], values[last])
