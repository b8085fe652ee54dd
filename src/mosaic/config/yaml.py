"""YAML reader and writer: plain data by the core schema of YAML 1.2, with duplicate keys refused.

PyYAML follows 1.1, where `3e-4` is text, `no` is false, `12:30` is 750 and a date is an object. Other readers of 1.2
still turn dates into objects (see docs/decisions/0023-yaml-and-toml.md).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

from mosaic.core.ids import Json

_TAG = "tag:yaml.org,2002:"
_NULL = re.compile(r"~|null|Null|NULL|")
_BOOL = re.compile(r"true|True|TRUE|false|False|FALSE")
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def read_yaml(text: str) -> Json:
    """Parse the one document in the text; raise yaml.YAMLError, or RecursionError where it is nested too deeply."""
    document: Json = yaml.load(text, Loader=_Loader)
    return document


def write_yaml(document: Mapping[str, Json]) -> str:
    """Return text that `read_yaml` reads as the same data, in the same order."""
    text: str = yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def has_aliases(text: str) -> bool:
    """Return whether a part of the document is repeated by reference, which makes a short text a large document."""
    return any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=_Loader))


def read_scalar(text: str) -> bool | int | float | str | None:
    """Parse a plain scalar, as text if it is nothing else; raise ValueError for absurdly long integers."""
    for pattern, read in _READERS.values():
        if pattern.fullmatch(text):
            return read(text)
    return text


def _read_int(text: str) -> int:
    return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))


def _read_float(text: str) -> float:
    return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))


_READERS: dict[str, tuple[re.Pattern[str], Callable[[str], bool | int | float | None]]] = {
    "null": (_NULL, lambda text: None),
    "bool": (_BOOL, lambda text: text.lower() == "true"),
    "int": (_INT, _read_int),
    "float": (_FLOAT, _read_float),
}


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:
        return True


def _represent_text(dumper: yaml.SafeDumper, text: str) -> ScalarNode:
    """Quote text that a reader of YAML 1.2 would take for something else; PyYAML quotes for 1.1."""
    try:
        plain = read_scalar(text) == text and text != "<<"
    except ValueError:
        plain = False  # an integer that is too long to be read
    return dumper.represent_scalar(f"{_TAG}str", text, style=None if plain else '"')


_Dumper.add_representer(str, _represent_text)


class _Loader(yaml.SafeLoader):
    yaml_constructors: ClassVar[dict[str | None, Any]] = {}  # filled below with plain data and nothing else
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - PyYAML declares it this way

    def compose_mapping_node(self, anchor: dict[Any, Node]) -> MappingNode:
        """Refuse duplicate keys here, before merge keys (`<<`) add pairs that may be overridden."""
        node = super().compose_mapping_node(anchor)
        seen: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and (key.tag, key.value) in seen:
                raise ConstructorError(None, None, f"the key '{key.value}' is duplicated", key.start_mark)
            if isinstance(key, ScalarNode):
                seen.add((key.tag, key.value))
        return node


def _construct(name: str) -> Callable[[_Loader, Node], object]:
    pattern, read = _READERS[name]

    def construct(loader: _Loader, node: Node) -> object:
        text = loader.construct_scalar(node)  # type: ignore[arg-type]  # it checks that the node is a scalar
        try:
            if pattern.fullmatch(text):
                return read(text)
        except ValueError as error:
            raise ConstructorError(None, None, str(error), node.start_mark) from error
        raise ConstructorError(None, None, f"'{text}' is not a valid {name}", node.start_mark)

    return construct


def _refuse(loader: _Loader, node: Node) -> object:
    raise ConstructorError(None, None, f"the tag {node.tag} is not plain data", node.start_mark)


for _name, (_pattern, _) in _READERS.items():
    _Loader.add_constructor(f"{_TAG}{_name}", _construct(_name))
    _Loader.add_implicit_resolver(f"{_TAG}{_name}", re.compile(f"(?:{_pattern.pattern})\\Z"), None)
_Loader.add_implicit_resolver(f"{_TAG}merge", re.compile(r"<<\Z"), ["<"])
for _name in ("str", "seq", "map"):
    _Loader.add_constructor(f"{_TAG}{_name}", getattr(yaml.SafeLoader, f"construct_yaml_{_name}"))
_Loader.add_constructor(None, _refuse)
