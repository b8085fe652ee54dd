"""Files of settings: JSON, YAML and TOML, read and written as plain data."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from os import PathLike
from pathlib import Path

import yaml

from mosaic.config.yaml import read_yaml, write_yaml
from mosaic.core.errors import FormatError, InputError, did_you_mean, shown
from mosaic.core.ids import Json


def read_document(path: str | PathLike[str]) -> dict[str, object]:
    """Return the mapping that a .json, .yaml, .yml or .toml file holds."""
    file = Path(path)
    _reader(file)
    return parse_document(_read_text(file), file)


def _reader(file: Path) -> Callable[[str], object]:
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise InputError(f"'{file}' has an unknown extension. Settings are read from {', '.join(_READERS)} files.")
    return reader


def parse_document(text: str, file: Path) -> dict[str, object]:
    """Return the mapping that a text holds, in the format that the file's name says; errors name the file."""
    reader = _reader(file)
    try:
        document = reader(text)
    except RecursionError as error:
        raise FormatError(f"{file}: it is nested too deeply to be read.") from error
    except (ValueError, yaml.YAMLError) as error:
        raise FormatError(f"{file}{_complaint(error)}") from error
    if not isinstance(document, Mapping):
        held = "is empty" if document is None else f"holds {shown(document)}"
        raise FormatError(f"{file}: it {held}, but settings are names with values, such as seed: 7.")
    return dict(document)


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise InputError(f"There is no file '{file}'.{_neighbour(file)}") from error
    except IsADirectoryError as error:
        raise InputError(f"'{file}' is a folder: name the file in it.") from error
    except UnicodeDecodeError as error:
        raise FormatError(f"{file}: it is not UTF-8 text (byte {error.start}).") from error
    except (OSError, ValueError) as error:
        raise InputError(f"'{file}' cannot be read: {error}.") from error


def _neighbour(file: Path) -> str:
    """Suggest a file beside it that may have been meant."""
    try:
        return did_you_mean(file.name, [other.name for other in file.parent.iterdir()])
    except OSError:
        return f" There is no folder '{file.parent}' either."


def read_json(text: str) -> Json:
    """Parse strict JSON; raise ValueError, or RecursionError where it is nested too deeply."""
    document: Json = json.loads(text, object_pairs_hook=_without_twins, parse_constant=_refuse_constant)
    return document


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table: dict[str, object] = {}
    for key, value in pairs:
        if key in table:
            raise ValueError(f"the key '{key}' is duplicated")
        table[key] = value
    return table


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON; numbers must be finite")


def _complaint(error: Exception) -> str:
    """Return « line 3, column 5: what is wrong», as far as the parser knows."""
    match error:
        case json.JSONDecodeError(msg=message, lineno=line, colno=column):
            return f", line {line}, column {column}: {message}."
        case yaml.MarkedYAMLError(problem=problem, problem_mark=mark) if mark is not None:
            return f", line {mark.line + 1}, column {mark.column + 1}: {problem}."
        case _:
            return f": {error}."  # tomllib's message includes the line


_READERS: Mapping[str, Callable[[str], object]] = {
    ".json": read_json,
    ".yaml": read_yaml,
    ".yml": read_yaml,
    ".toml": tomllib.loads,
}

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def write_document(document: Mapping[str, Json], suffix: str) -> str:
    """Return text that `parse_document` reads as the same data; raise InputError where the format cannot hold it."""
    match suffix:
        case ".yaml" | ".yml":
            return write_yaml(document)
        case ".json":
            return json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        case ".toml":
            empty = next(_without_value(document), None)
            if empty is not None:
                raise InputError(f"TOML cannot hold null, which '{empty}' is. Use YAML or JSON.")
            return write_toml(document)
    raise InputError(f"'{suffix}' is an unknown extension. Settings are written to {', '.join(_READERS)} files.")


def _without_value(value: Json, path: str = "") -> Iterator[str]:
    """Yield the path of every null in a document."""
    if value is None:
        yield path
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from _without_value(below, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for below in value:
            yield from _without_value(below, path)


def write_toml(document: Mapping[str, object]) -> str:
    """Return text that `tomllib` reads as the same data, in the same order.

    TOML has no null, so settings without a value are left out.
    """
    return "\n".join(_toml_table(document, ())).strip() + "\n"


def _toml_table(table: Mapping[str, object], path: tuple[str, ...]) -> Iterator[str]:
    """Yield values before subtables: everything below a heading belongs to it."""
    values = {key: value for key, value in table.items() if value is not None and not isinstance(value, Mapping)}
    below = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (values or not below):
        yield f"\n[{'.'.join(map(_toml_key, path))}]"
    for key, value in values.items():
        yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in below.items():
        yield from _toml_table(value, (*path, key))


def _toml_value(value: object) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _toml_text(value)
        case int() | float():
            return repr(value)
        case list() | tuple():
            return f"[{', '.join(_toml_value(each) for each in value)}]"
        case Mapping():
            given = {key: each for key, each in value.items() if each is not None}
            return f"{{{', '.join(f'{_toml_key(key)} = {_toml_value(each)}' for key, each in given.items())}}}"
        case None:
            raise ValueError("TOML cannot hold null in a list")
        case _:
            raise TypeError(f"TOML cannot hold {value!r}")


def _toml_key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _toml_text(key)


def _toml_text(text: str) -> str:
    """Quote as in JSON, and escape DEL too."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
