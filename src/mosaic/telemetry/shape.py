"""How the events of a run look, so that their numbers can be taken out without making a dict of each event.

A shape is learnt from events that were decoded the slow way; one that looks different is refused, never misread.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from types import NoneType
from typing import Any, NamedTuple

import msgspec

_MOST_KEYS = 2000
_ALWAYS = {"kind": str, "seq": int, "attempt": int}
_NUMBER = float | bool | None
_ESCAPED = re.compile(r'[\x00-\x1f"\\]')
_SLOTS: dict[type, Any] = {float: _NUMBER, NoneType: _NUMBER, str: str | None, list: list[Any] | None}

Tree = dict[str, Any]
"""Key → float, str, list, NoneType (only null so far) or, for a dict, its own tree."""


class Field(NamedTuple):
    """A key that may lead to numbers."""

    key: str
    value: Callable[[Any], Any]
    inner: tuple[Field, ...] | None
    """For a dict; None for a number."""


class Shape(NamedTuple):
    decoder: msgspec.json.Decoder[Any]
    """Makes objects that `Field.value` reads; they hold no reference cycles, so the collector leaves them alone."""
    kind: Callable[[Any], str]
    fields: tuple[Field, ...]


def learn(tree: Tree, events: Iterable[Mapping[str, Any]]) -> bool:
    """Make the tree fit the events; False where it cannot: a key holds now this, now that, or needs escapes."""
    return all(_learn_value(tree, key, value) for event in events for key, value in event.items())


def shape_of(tree: Tree) -> Shape | None:
    """None for a run with too many different keys: a type of that size costs more than it saves."""
    if _size(tree) > _MOST_KEYS:
        return None
    struct, fields = _struct(tree, _ALWAYS)
    return Shape(msgspec.json.Decoder(struct), attrgetter(f"f{list(tree).index('kind')}"), fields)


def _learn_value(tree: Tree, key: str, value: Any) -> bool:
    if _ESCAPED.search(key):  # msgspec knows no fields of such names
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
    slots: list[Any] = []
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
