"""Form fields for the settings of a pydantic model: widget, texts, and conversion between text and value."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, TypedDict

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from mosaic.config.file_formats import read_json
from mosaic.config.yaml import read_scalar, read_yaml
from mosaic.core.errors import demand, did_you_mean, suggestion
from mosaic.core.ids import Json, JsonObject

_UNITS = {"_s": "s", "_ms": "ms", "_mb": "MB", "_hz": "Hz"}  # names carry their units


Widget: TypeAlias = Literal["switch", "choice", "text"]
Group: TypeAlias = Literal["basic", "advanced"]
JsonSchema = TypedDict(
    "JsonSchema",
    {
        "$ref": str,
        "anyOf": "list[JsonSchema]",
        "type": str,
        "const": str,
        "enum": list[str],
        "minimum": float,
        "maximum": float,
        "exclusiveMinimum": float,
        "exclusiveMaximum": float,
        "description": str,
        "unit": str,
    },
    total=False,
)
"""Part of a JSON schema that decides a field."""


@dataclass(frozen=True, slots=True)
class SchemaField:
    name: str
    widget: Widget
    help: str
    types: frozenset[str]  # JSON types
    default: Json  # None also where it is required
    required: bool
    choices: tuple[str, ...] = ()
    unit: str = ""
    bounds: str = ""
    group: Group = "basic"

    @property
    def title(self) -> str:
        suffix = next((end for end in _UNITS if self.unit and self.name.endswith(end)), "")
        words = self.name.removesuffix(suffix).strip("_").replace("_", " ")
        return words[:1].upper() + words[1:]

    @property
    def optional(self) -> bool:
        return "null" in self.types

    @property
    def words(self) -> str:
        """Return the help for a form, in which None is an empty field."""
        return re.sub(r"(^|\. )None\b", r"\1Empty", self.help).replace("None", "empty")

    @property
    def nothing(self) -> str:
        """Return the word for None; the field's help says what that means."""
        return "auto" if "None" in self.help else "none"


def fields_of(model: type[BaseModel]) -> list[SchemaField]:
    defaults = {name: field.get_default(call_default_factory=True) for name, field in model.model_fields.items()
                if not field.is_required()}  # fmt: skip
    return fields_of_schema(model.model_json_schema(), json.loads(json.dumps(defaults, default=_as_json)))


def fields_of_schema(schema: Mapping[str, Any], defaults: Mapping[str, Json] | None = None) -> list[SchemaField]:
    """Return the fields of a JSON schema; without `defaults`, those that it states itself.

    A field is advanced where others are marked basic and it is not; one that is required is always basic.
    """
    required = set(schema.get("required", ()))
    found = [
        _field(
            name,
            spec,
            schema.get("$defs", {}),
            spec.get("default") if defaults is None else defaults.get(name),
            name in required,
        )
        for name, spec in schema["properties"].items()
    ]
    basic = {name for name, spec in schema["properties"].items() if spec.get("group") == "basic"}
    if not basic:
        return found
    return [field if field.name in basic | required else replace(field, group="advanced") for field in found]


def _as_json(value: object) -> object:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else str(value)


def _field(name: str, spec: JsonSchema, defs: Mapping[str, JsonSchema], default: Json, required: bool) -> SchemaField:
    parts = list(_parts(spec, defs))
    types = frozenset(part["type"] for part in parts if "type" in part)
    choices = tuple(word for part in parts for word in part.get("enum", ()))
    bounds = next((text for part in parts if (text := _bounds(part))), "")
    unit = spec.get("unit") or next((unit for end, unit in _UNITS.items() if name.endswith(end)), "")
    closed = bool(choices) and all("enum" in part or part.get("type") == "null" for part in parts)
    widget: Widget = "text"
    if closed:
        widget = "choice"
    elif types == {"boolean"}:
        widget = "switch"
    return SchemaField(
        name, widget, spec.get("description", ""), types, default, required, choices if closed else (), unit, bounds
    )


def _parts(spec: JsonSchema, defs: Mapping[str, JsonSchema]) -> Iterator[JsonSchema]:
    """Yield the members of a union, with references resolved."""
    if "$ref" in spec:
        yield from _parts(defs[spec["$ref"].rpartition("/")[2]], defs)
    elif "const" in spec:
        yield {**spec, "enum": [spec["const"]]}
    elif "anyOf" in spec:
        for part in spec["anyOf"]:
            yield from _parts(part, defs)
    else:
        yield spec


def _bounds(spec: JsonSchema) -> str:
    low, high = spec.get("minimum"), spec.get("maximum")
    above, below = spec.get("exclusiveMinimum"), spec.get("exclusiveMaximum")
    if low is not None and high is not None:
        return f"{_number(low)} to {_number(high)}"
    words = [
        f"more than {_number(above)}" if above is not None else "",
        f"at least {_number(low)}" if low is not None else "",
        f"less than {_number(below)}" if below is not None else "",
        f"at most {_number(high)}" if high is not None else "",
    ]
    return ", ".join(word for word in words if word)


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else f"{value:g}"


def as_text(value: Json) -> str:
    """Return the field's text for a value; None becomes an empty text."""
    match value:
        case None:
            return ""
        case str():
            return value
        case list() | tuple() | dict() | bool():
            return json.dumps(value)
        case _:
            return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def from_text(field: SchemaField, text: str) -> Json:
    """Return the value that a typed text means; invalid input stays text, so that the model's error explains it."""
    text = text.strip()
    if not text:
        return None if field.optional or field.required else _empty(field)
    if field.types <= {"string", "null"}:
        return text
    try:
        if text[0] in '[{"':
            found: Json = read_json(text)
            return found
        if "array" in field.types and ("," in text or not field.types & {"integer", "number"}):
            items: Json = read_yaml(f"[{text}]")
            return items
        return read_scalar(text)
    except (ValueError, yaml.YAMLError):
        return text


def _empty(field: SchemaField) -> Json:
    if "array" in field.types:
        return []
    return {} if "object" in field.types else field.default


def complaints(model: type[BaseModel], values: Mapping[str, Json]) -> dict[str, str]:
    """Return the model's error for each setting; errors that concern several are under ""."""
    try:
        model.model_validate(dict(values))
    except ValidationError as error:
        found: dict[str, str] = {}
        for each in error.errors(include_url=False):
            name = str(each["loc"][0]) if each["loc"] else ""
            if name in model.model_fields or not name:
                found.setdefault(name, _words(each))
            else:
                found.setdefault("", f"There is no option '{name}'.{did_you_mean(name, model.model_fields)}")
        return found
    return {}


def _words(complaint: ErrorDetails) -> str:
    if complaint["type"] == "missing":
        return "It is required."
    text = f"{demand(complaint)}.{suggestion(complaint)}"
    return text[:1].upper() + text[1:]


def shown_default(field: SchemaField, default: Json) -> str:
    return as_text(default) or field.nothing


class FieldValues:
    """Values of a form's fields: `values` holds only what differs from the defaults, `problems` what was refused."""

    def __init__(
        self,
        fields: Sequence[SchemaField],
        values: JsonObject,
        complain: Callable[[Mapping[str, Json]], Mapping[str, str]],
        preset: Mapping[str, Json] | None = None,
    ) -> None:
        """Keep values in `values`; `complain` returns what is wrong with settings, `preset` replaces defaults."""
        self.fields = {field.name: field for field in fields}
        self.values, self._complain, self._preset = values, complain, dict(preset or {})
        self.defaults = {name: self._preset.get(name, field.default) for name, field in self.fields.items()}
        self.problems: dict[str, str] = {}

    def effective(self, name: str) -> Json:
        return self.values.get(name, self.defaults[name])

    def problem_of(self, name: str, value: Json) -> str:
        """Return why a field cannot have a value; "" if it can."""
        found = self._complain({**self._preset, **self.values, name: value})
        return found.get(name) or found.get("", "")

    def take(self, name: str, value: Json) -> str:
        """Set a field; return why that is invalid, or "" if it was taken."""
        problem = self.problem_of(name, value)
        if problem:
            self.problems[name] = problem
        else:
            self.problems.pop(name, None)
            self._keep(name, value)
        return problem

    def take_all(self, values: Mapping[str, Json]) -> str:
        """Take a whole document of settings; return why it is invalid, or "" if it was taken."""
        unknown = [name for name in values if name not in self.fields]
        found = self._complain({**self._preset, **values})
        if found or unknown:
            name, text = next(iter(found.items()), ("", ""))
            return f"{name}: {text}" if name else text or f"There is no option '{unknown[0]}'."
        self.values.clear()
        self.problems.clear()
        for name, value in values.items():
            self._keep(name, value)
        return ""

    def _keep(self, name: str, value: Json) -> None:
        if value == self.defaults[name]:
            self.values.pop(name, None)
        else:
            self.values[name] = value
