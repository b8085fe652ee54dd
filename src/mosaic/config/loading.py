"""How a document becomes a RunConfig, and a RunConfig a document."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike, fspath
from typing import Any

from pydantic import ValidationError

from mosaic.config.explain import explain_settings
from mosaic.config.file_formats import read_document
from mosaic.config.overrides import apply_overrides
from mosaic.config.run import RunConfig
from mosaic.config.upgrade import upgrade
from mosaic.core.errors import FormatError, InputError, shown


def load_run_config(path: str | PathLike[str], overrides: Iterable[str] = ()) -> RunConfig:
    """The run that a .json, .yaml, .yml or .toml file asks for."""
    document = read_document(path)
    with _naming(fspath(path)):
        document = upgrade(document)
    document = apply_overrides(document, overrides)
    with _naming(fspath(path)):
        return _validated(document)


def parse_run_config(data: Mapping[str, Any], overrides: Iterable[str] = ()) -> RunConfig:
    """The run that a document of any version asks for, after `SECTION.KEY=VALUE` overrides in today's names."""
    if not isinstance(data, Mapping):
        raise FormatError(f"Settings are names with values, such as {{'seed': 7}}, not {shown(data)}.")
    return _validated(apply_overrides(upgrade(data), overrides))


def dump_run_config(config: RunConfig) -> dict[str, Any]:
    """A JSON document that `parse_run_config` turns into an equal RunConfig. Keep its order: in `agents` it counts."""
    return config.model_dump(mode="json")


def _validated(document: dict[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(document)
    except ValidationError as error:
        raise InputError(explain_settings(error, RunConfig)) from error


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Errors about a file's content name the file; those about overrides must not."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{file}: {error}") from error
