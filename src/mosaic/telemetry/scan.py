"""How an event file becomes columns, as fast as JSON can be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from mosaic.telemetry.journal import Whole, whole_events
from mosaic.telemetry.names import FRAME, prefix
from mosaic.telemetry.shape import Field, Shape, Tree, learn, shape_of
from mosaic.telemetry.transpose import (
    Collector,
    Columns,
    Rows,
    grouped,
    items_at,
    number_cells,
    rows_at,
    stacked,
    transpose,
)

_PIECE = 256 << 10  # what is decoded at a time: it should fit the processor's cache


class Scanner:
    """Remembers how the run's events look, so that the next ones are decoded straight to numbers."""

    def __init__(self) -> None:
        self._tree: Tree = {}
        self._shape: Shape | None = None
        self._steady = True

    def columns(self, data: bytes) -> Whole[Columns]:
        """The columns of the events in bytes that begin with a line's first byte."""
        parts: list[Columns] = []
        position = end = damaged = 0
        while position < len(data):
            cut = data.find(b"\n", position + _PIECE) + 1 or len(data)
            whole = self._piece(data[position:cut])
            if whole.end:
                # a damaged line at the end of a piece was held back for a repair; what follows shows there is none
                damaged += whole.damaged + data.count(b"\n", end, position)
                end = position + whole.end
                parts.append(whole.found)
            position = cut
        return Whole(stacked(parts) if parts else transpose([]), end, damaged)

    def _piece(self, data: bytes) -> Whole[Columns]:
        if self._shape and data.endswith(b"\n"):
            try:
                return Whole(_taken(self._shape.decoder.decode_lines(data), self._shape), len(data), 0)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                pass  # an event of another shape, or a damaged line
        events, end, damaged = whole_events(data)
        if self._steady and events:
            self._shape = shape_of(self._tree) if learn(self._tree, events) else None
            self._steady = self._shape is not None
        return Whole(transpose(events), end, damaged)


def _taken(items: Sequence[Any], shape: Shape) -> Columns:
    kinds = list(map(shape.kind, items))
    collector = Collector(kinds)
    rows = np.arange(len(items), dtype=np.uint32)
    for kind, places in grouped(kinds):
        _take(rows_at(rows, places), items_at(items, places), shape.fields, prefix(kind), collector, FRAME)
    return collector.columns()


def _take(
    rows: Rows,
    items: Sequence[Any],
    fields: Sequence[Field],
    start: str,
    collector: Collector,
    placing: frozenset[str] = frozenset(),
) -> None:
    for field in fields:
        values = list(map(field.value, items))
        if field.key in placing:
            collector.place(field.key, number_cells(rows, values))
        elif field.inner is None:
            collector.add(start + field.key, number_cells(rows, values))
        else:
            places = [place for place, value in enumerate(values) if value is not None]
            below = rows if len(places) == len(values) else rows[places]
            _take(below, [values[place] for place in places], field.inner, f"{start}{field.key}/", collector)
