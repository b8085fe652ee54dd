"""Lookup of settings by dotted path, and explanations of validation errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from mosaic.core.errors import demand, nearest, shown, suggestion


def section_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the model behind a field that groups further settings."""
    kind = field.annotation
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def list_settings(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, FieldInfo]]:
    """Yield every setting that holds a value, in the order of the model: ("training.algorithm", its field)."""
    for name, field in model.model_fields.items():
        section = section_of(field)
        if section is None:
            yield ".".join((*above, name)), field
        else:
            yield from list_settings(section, (*above, name))


def find_section(model: type[BaseModel], path: Sequence[object]) -> type[BaseModel] | None:
    """Return the section at a path; None where the path does not lead to one."""
    section: type[BaseModel] | None = model
    items: type[BaseModel] | None = None  # of a list of sections, where a position follows
    for name in path:
        if items is not None and str(name).isdecimal():
            section, items = items, None
            continue
        field = section.model_fields.get(str(name)) if section else None
        section, items = (section_of(field), _section_of_items(field)) if field else (None, None)
    return section


def earlier_names(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the earlier names of a section's settings, with their current ones."""
    names: Mapping[str, str] = getattr(model, "earlier_names", {})
    return names


def _section_of_items(field: FieldInfo) -> type[BaseModel] | None:
    kinds = [kind for kind in get_args(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)]
    return kinds[0] if kinds else None


def no_such_setting(model: type[BaseModel], path: Sequence[str]) -> str:
    """Return «There is no setting 'training.algorithim'. Did you mean 'training.algorithm'? Known: …»."""
    *above, asked = path
    section = find_section(model, above) or model
    near = nearest(asked, [*section.model_fields, *earlier_names(section)])
    near = earlier_names(section).get(near, near) if near else None
    meant = ".".join((*above, near)) if near else _elsewhere(model, asked)
    hint = f"Did you mean '{meant}'?" if meant else (
        "Options of the worker belong under 'training.params', those of the env under 'environment.options'."
    )  # fmt: skip
    return f"There is no setting '{'.'.join(path)}'. {hint} Known: {', '.join(section.model_fields)}."


def _elsewhere(model: type[BaseModel], asked: str) -> str | None:
    """Find a setting of another section with that name: `total_timesteps` is `training.total_timesteps`."""
    by_name = {path.rpartition(".")[2]: path for path, _ in list_settings(model)}
    for heading, field in model.model_fields.items():
        if section := section_of(field):
            by_name |= {earlier: f"{heading}.{now}" for earlier, now in earlier_names(section).items()}
    near = nearest(asked, by_name)
    return by_name[near] if near else None


MOST_COMPLAINTS = 5


def explain_settings(error: ValidationError, model: type[BaseModel]) -> str:
    """Return one line per error, unknown keys first: a misspelt key is often why another is missing."""
    complaints = sorted(error.errors(include_url=False), key=lambda each: each["type"] != "extra_forbidden")
    lines = [_explain(each, model) for each in complaints[:MOST_COMPLAINTS]]
    if len(complaints) > MOST_COMPLAINTS:
        lines.append(f"There are {len(complaints) - MOST_COMPLAINTS} more errors.")
    return "\n".join(lines)


def _explain(complaint: ErrorDetails, model: type[BaseModel]) -> str:
    path = [str(part) for part in complaint["loc"] if part != "[key]"]
    match complaint["type"]:
        case "extra_forbidden":
            return no_such_setting(model, path)
        case "missing":
            return _missing(path, model)
    sentence = f"{demand(complaint)}.{suggestion(complaint)}"
    if complaint["loc"] and "[key]" in complaint["loc"]:
        return f"A name in '{'.'.join(path[:-1])}' cannot be {shown(complaint['input'])}: {sentence}"
    if find_section(model, path) and complaint["type"] == "value_error":
        return sentence  # settings that contradict each other: the sentence names them
    where = f"'{'.'.join(path)}'" if path else "The document"
    return f"{where} cannot be {shown(complaint['input'])}: {sentence}"


def _missing(path: list[str], model: type[BaseModel]) -> str:
    while section := find_section(model, path):
        path = [*path, next(name for name, field in section.model_fields.items() if field.is_required())]
    home = find_section(model, path[:-1])
    help_text = home.model_fields[path[-1]].description if home else None
    dotted = ".".join(path)
    return f"The setting '{dotted}' is missing: {help_text} Add it to the document or type --set {dotted}=VALUE."
