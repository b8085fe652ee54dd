"""TOML writer for settings."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_toml(document: Mapping[str, Any]) -> str:
    """Return text that `tomllib` reads as the same data, in the same order.

    TOML has no null, so settings without a value are left out.
    """
    return "\n".join(_table(document, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    """Yield values before subtables: everything below a heading belongs to it."""
    values = {key: value for key, value in table.items() if value is not None and not isinstance(value, Mapping)}
    below = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (values or not below):
        yield f"\n[{'.'.join(map(_key, path))}]"
    for key, value in values.items():
        yield f"{_key(key)} = {_value(value)}"
    for key, value in below.items():
        yield from _table(value, (*path, key))


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _text(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(_value(each) for each in value)}]"
        case Mapping():
            given = {key: each for key, each in value.items() if each is not None}
            return f"{{{', '.join(f'{_key(key)} = {_value(each)}' for key, each in given.items())}}}"
        case None:
            raise ValueError("TOML cannot hold null in a list")
        case _:
            raise TypeError(f"TOML cannot hold {value!r}")


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _text(text: str) -> str:
    """Quote as in JSON, and escape DEL too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
