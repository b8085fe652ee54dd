"""Conversion between documents of any version and RunConfig, with overrides from the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any, Final, NamedTuple, get_args, get_origin

import yaml
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from mosaic.config.file_formats import read_document, read_json
from mosaic.config.run import CURRENT_VERSION, RunConfig
from mosaic.config.sections import Section
from mosaic.config.validation import earlier_names, explain_settings, no_such_setting, section_of
from mosaic.config.yaml import read_scalar, read_yaml
from mosaic.core.errors import FormatError, InputError, UnknownNameError, shown


def apply_overrides(data: Mapping[str, object], overrides: Iterable[str]) -> dict[str, object]:
    """Return a copy of the document with every SECTION.KEY=VALUE written into it."""
    document = dict(data)
    written: dict[tuple[str, ...], tuple[str, object]] = {}
    for override in overrides:
        dotted, equals, text = override.partition("=")
        path = dotted.strip().split(".")
        if not equals or not all(path):
            raise InputError(f"'{override}' is not KEY=VALUE, for example training.params.gamma=0.98 or seed=7.")
        place = _find_place(RunConfig, path)
        value = _read_value(override, text.strip(), place)
        name, other = written.get(place.keys, (dotted, value))
        if name != dotted and other != value:
            raise InputError(f"'{name}' and '{dotted}' are one setting, and they differ. Leave one of them out.")
        written[place.keys] = (dotted, value)
        document = _edited(document, place.keys, value)
    return document


class _Place(NamedTuple):
    """Position of a value in the document, and how to parse its text."""

    keys: tuple[str, ...]
    text: bool = False  # the setting is text: `name=7` means the text 7
    optional: bool = False  # null is allowed


def _find_place(model: type[BaseModel], path: list[str]) -> _Place:
    """Check settings against the model; below the env's and the worker's own options any key is allowed."""
    section, path = model, list(path)
    for depth, name in enumerate(path):
        path[depth] = name = earlier_names(section).get(name, name)
        field = section.model_fields.get(name)
        if field is None:
            raise UnknownNameError(no_such_setting(model, path[: depth + 1]))
        below = path[depth + 1 :]
        inner = section_of(field)
        if inner is None:
            return _place_in_field(field, path[: depth + 1], below)
        section = inner
    return _Place(tuple(path))


def _place_in_field(field: FieldInfo, path: list[str], below: list[str]) -> _Place:
    kinds = _kinds(field.annotation)
    if not below:
        return _Place(tuple(path), text=kinds <= {str, type(None)}, optional=type(None) in kinds)
    tables = [kind for kind in kinds if get_origin(kind) is dict]
    if not tables:
        raise UnknownNameError(f"'{'.'.join(path)}' is one value: there is no '{'.'.join((*path, *below))}' in it.")
    if get_args(tables[0])[1] is Any:
        return _Place((*path, *below))
    return _Place((*path, ".".join(below)), text=True)  # agents: a name may contain dots


def _kinds(annotation: object) -> set[object]:
    """Return the members of a union, without their annotations."""
    kinds = get_args(annotation) if get_origin(annotation) not in (dict, tuple, None) else (annotation,)
    return {getattr(kind, "__origin__", kind) if hasattr(kind, "__metadata__") else kind for kind in kinds}


def _edited(
    data: Mapping[str, object], keys: tuple[str, ...], value: object, above: tuple[str, ...] = ()
) -> dict[str, object]:
    head, *rest = keys
    if not rest:
        return {**data, head: value}
    below = data.get(head)
    here = (*above, head)
    if below is not None and not isinstance(below, Mapping):
        raise InputError(f"'{'.'.join((*above, *keys))}' cannot be set: '{'.'.join(here)}' is {shown(below)}.")
    return {**data, head: _edited(below or {}, tuple(rest), value, here)}


def _read_value(override: str, text: str, place: _Place) -> object:
    try:
        if text.startswith('"'):
            return read_json(text)
        if place.text and not (place.optional and text == "null"):
            return text
        if text.startswith(("[", "{")):
            return _read_collection(text)
        return read_scalar(text) if text else ""
    except (ValueError, yaml.YAMLError, RecursionError) as error:
        raise InputError(
            f"The value of '{override}' cannot be read. Type a number, true, false, null, a list such as [1, 2], "
            "or text; put text that begins like a list in quotes: '\"[a\"'."
        ) from error


def _read_collection(text: str) -> object:
    """Parse as JSON if possible, else as YAML, such as [a, b].

    YAML reads the surrogate pairs of JSON as two characters.
    """
    try:
        return read_json(text)
    except ValueError:
        return read_yaml(text)


def load_run_config(path: str | PathLike[str], overrides: Iterable[str] = ()) -> RunConfig:
    """Load the run configuration from a .json, .yaml, .yml or .toml file."""
    document = read_document(path)
    with _naming(fspath(path)):
        document = upgrade(document)
    document = apply_overrides(document, overrides)
    with _naming(fspath(path)):
        return _validated(document)


def parse_run_config(data: object, overrides: Iterable[str] = ()) -> RunConfig:
    """Parse a document of any version, after applying `SECTION.KEY=VALUE` overrides in current names."""
    if not isinstance(data, Mapping):
        raise FormatError(f"Settings are names with values, such as {{'seed': 7}}, not {shown(data)}.")
    return _validated(apply_overrides(upgrade(data), overrides))


def dump_run_config(config: RunConfig) -> dict[str, Any]:
    """Return a JSON document that `parse_run_config` turns into an equal RunConfig.

    Keep its order: in `agents` it matters.
    """
    return config.model_dump(mode="json")


def _validated(document: dict[str, object]) -> RunConfig:
    try:
        return RunConfig.model_validate(document)
    except ValidationError as error:
        raise InputError(explain_settings(error, RunConfig)) from error


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Prefix errors about a file's content with its name; those about overrides must not have it."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{file}: {error}") from error


def upgrade(data: Mapping[str, object]) -> dict[str, object]:
    """Return the document in the current version; one without a version is assumed to be current."""
    document = dict(data)
    version = document.get("version", CURRENT_VERSION)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise FormatError(f"'version' is {shown(version)}: it should be a whole number from 1 to {CURRENT_VERSION}.")
    if version > CURRENT_VERSION:
        raise FormatError(
            f"This document has version {shown(version)}, but this Mosaic reads versions up to {CURRENT_VERSION}. "
            "Install a newer one: pip install --upgrade mosaic-rl"
        )
    for older in range(version, CURRENT_VERSION):
        document = {**_STEPS[older](document), "version": older + 1}
    return {name: with_current_names(name, value) for name, value in document.items()}


def with_current_names(section: str, data: object) -> Any:
    """Return what a document has under this heading, with the current names of renamed settings."""
    field = RunConfig.model_fields.get(section)
    kind = section_of(field) if field else None
    if kind is None or not issubclass(kind, Section):
        return data
    try:
        return kind.with_current_names(data)
    except ValueError as error:
        raise InputError(f"{section}: {error}.") from error


def _from_1(data: dict[str, object]) -> dict[str, object]:
    """Rename `environment.name` and `training.timesteps` of version 1."""
    return _renamed(_renamed(data, "environment", "name", "env_id"), "training", "timesteps", "total_timesteps")


def _from_2(data: dict[str, object]) -> dict[str, object]:
    """Set `shared_actor`: in version 2 agents with equal spaces shared one actor beside the shared critic."""
    training = data.get("training") or {}
    central = str(data.get("policy_configuration")).lower() == "shared_value_function"
    if not central or not isinstance(training, Mapping) or training.get("worker") not in (None, "native", "rllib"):
        return data
    params = training.get("params") or {}
    if not isinstance(params, Mapping):
        return data
    return {**data, "training": {**training, "params": {"shared_actor": True, **params}}}


def _renamed(data: dict[str, object], section: str, old: str, new: str) -> dict[str, object]:
    below = data.get(section)
    if not isinstance(below, Mapping) or old not in below:
        return data
    if new in below:
        raise FormatError(
            f"'{section}.{old}' (its name in version 1) and '{section}.{new}' are both in the document: remove one."
        )
    return {**data, section: {new if key == old else key: value for key, value in below.items()}}


_STEPS: Final[Mapping[int, Callable[[dict[str, object]], dict[str, object]]]] = {1: _from_1, 2: _from_2}
