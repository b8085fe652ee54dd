"""Absolute paths for the code files that a configuration names, so that a run finds them from any folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.user_code import PREFIX, absolute_code


def with_absolute_code(config: RunConfig) -> RunConfig:
    """Return the configuration with an absolute path in every `python:PATH/file.py:NAME`."""
    document = dump_run_config(config)
    changed = _absolute(document)
    changed["environment"] = absolute_environment(config.environment).model_dump(mode="json")
    return config if changed == document else parse_run_config(changed)


def absolute_environment(config: EnvironmentConfig) -> EnvironmentConfig:
    """Return the env's configuration with absolute paths."""
    document = _absolute(config.model_dump(mode="json"))
    if config.family == "python":
        document["env_id"] = absolute_code(config.id).removeprefix(PREFIX)
    return config if document == config.model_dump(mode="json") else EnvironmentConfig.model_validate(document)


def _absolute(value: Any) -> Any:
    match value:
        case str():
            return absolute_code(value)
        case Mapping():
            return {key: _absolute(item) for key, item in value.items()}
        case list() | tuple():
            return [_absolute(item) for item in value]
    return value
