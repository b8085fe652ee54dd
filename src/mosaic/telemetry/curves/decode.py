"""Fast decoder from an event file to columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple, TypeAlias

import msgspec
import numpy as np

from mosaic.telemetry.curves.columns import (
    Cells,
    Collector,
    Columns,
    Rows,
    finite_cells,
    grouped,
    items_at,
    number_cells,
    rows_at,
    stacked,
    transpose,
)
from mosaic.telemetry.events.event import FRAME, prefix
from mosaic.telemetry.events.journal import Whole, whole_events

_MOST_KEYS = 2000
_PIECE = 256 << 10  # decoded at a time: it should fit the processor's cache
_FIRST = 16 << 10  # until the shape of the events is known they are decoded the slow way
_ALWAYS = {"kind": str, "seq": int, "attempt": int}
_NUMBER = float | bool | None
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SLOTS: dict[type, object] = {float: _NUMBER, NoneType: _NUMBER, str: str | None, list: list[object] | None}

Tree: TypeAlias = "dict[str, type | Tree]"
"""Key → float, str, list, NoneType (only null so far) or, for a dict, its own tree."""


class Field(NamedTuple):
    """Key that may lead to numbers."""

    key: str
    value: Callable[[object], Any]
    inner: tuple[Field, ...] | None
    """Fields of a dict; None for a number."""


class Shape(NamedTuple):
    """Layout of a run's events, so that their numbers are read without building a dict of each event.

    It is learnt from events that were decoded generically; an event that does not fit is refused, never misread.
    """

    decoder: msgspec.json.Decoder[msgspec.Struct]
    """Builds objects that `Field.value` reads; they hold no reference cycles, so garbage collection skips them."""
    kind: Callable[[object], str]
    fields: tuple[Field, ...]


def learn(tree: Tree, events: Iterable[Mapping[str, object]]) -> bool:
    """Make the tree fit the events; return False where it cannot: a key changes its type, or needs escapes."""
    return all(_learn_value(tree, key, value) for event in events for key, value in event.items())


def shape_of(tree: Tree) -> Shape | None:
    """Return a decoder for the tree; None with too many keys, where building the type costs more than it saves."""
    if _size(tree) > _MOST_KEYS:
        return None
    struct, fields = _struct(tree, _ALWAYS)
    return Shape(msgspec.json.Decoder(struct), attrgetter(f"f{list(tree).index('kind')}"), fields)


def _learn_value(tree: Tree, key: str, value: object) -> bool:
    if _ESCAPED.search(key):  # msgspec does not support fields with such names
        return False
    if isinstance(value, dict):
        if tree.get(key, NoneType) is NoneType:
            tree[key] = {}
        inner = tree[key]
        return isinstance(inner, dict) and all(_learn_value(inner, name, below) for name, below in value.items())
    if value is None:
        tree.setdefault(key, NoneType)
        return True
    kind = float if isinstance(value, int) else type(value)
    if tree.get(key, NoneType) is NoneType:
        tree[key] = kind
    return tree[key] is kind


def _size(tree: Tree) -> int:
    return sum(1 + _size(inner) if isinstance(inner, dict) else 1 for inner in tree.values())


def _struct(tree: Tree, always: Mapping[str, type]) -> tuple[type[msgspec.Struct], tuple[Field, ...]]:
    slots: list[tuple[str, Any] | tuple[str, Any, None]] = []
    fields: list[Field] = []
    names = {f"f{number}": key for number, key in enumerate(tree)}
    for name, key in names.items():
        kind = tree[key]
        if key in always:
            slots.append((name, always[key]))
        elif isinstance(kind, dict):
            struct, inner = _struct(kind, {})
            slots.append((name, struct | None, None))
            fields.append(Field(key, attrgetter(name), inner))
        else:
            slots.append((name, _SLOTS[kind], None))
        if kind is float or kind is NoneType:
            fields.append(Field(key, attrgetter(name), None))
    struct = msgspec.defstruct("Event", slots, rename=names, kw_only=True, gc=False, forbid_unknown_fields=True)
    return struct, tuple(fields)


class Scanner:
    """Decoder that remembers the shape of the run's events, so that later ones are decoded directly to numbers."""

    def __init__(self) -> None:
        self._tree: Tree = {}
        self._shape: Shape | None = None
        self._steady = True

    def columns(self, data: bytes) -> Whole[Columns]:
        """Return the columns of the events in `data`, which begins at the start of a line."""
        parts: list[Columns] = []
        position = end = damaged = 0
        while position < len(data):
            cut = data.find(b"\n", position + (_PIECE if self._shape else _FIRST)) + 1 or len(data)
            whole = self._piece(data[position:cut])
            if whole.end:
                # a damaged line at the end of a piece was held back for a repair; what follows shows there was none
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


def _taken(items: Sequence[object], shape: Shape) -> Columns:
    kinds = list(map(shape.kind, items))
    groups = grouped(kinds)
    if len(groups) == 1:
        kinds = len(kinds) * kinds[:1]  # one string repeated is compared and looked up faster than many equal ones
    collector = Collector(kinds)
    rows = np.arange(len(items), dtype=np.uint32)
    for kind, places in groups:
        _take(rows_at(rows, places), items_at(items, places), shape.fields, prefix(kind), collector, FRAME)
    return collector.columns()


def _take(
    rows: Rows,
    items: Sequence[object],
    fields: Sequence[Field],
    start: str,
    collector: Collector,
    placing: frozenset[str] = frozenset(),
) -> None:
    for field in fields:
        if field.key in placing:
            collector.place(field.key, _cells(rows, items, field))
        elif field.inner is None:
            collector.add(start + field.key, _cells(rows, items, field))
        else:
            values = list(map(field.value, items))
            places = [place for place, value in enumerate(values) if value is not None]
            below = rows if len(places) == len(values) else rows[places]
            _take(below, [values[place] for place in places], field.inner, f"{start}{field.key}/", collector)


def _cells(rows: Rows, items: Sequence[object], field: Field) -> Cells:
    try:
        numbers = np.fromiter(map(field.value, items), np.float64, len(items))
    except (TypeError, OverflowError):  # null, or an integer too large for a float
        return number_cells(rows, list(map(field.value, items)))
    return finite_cells(rows, numbers)
