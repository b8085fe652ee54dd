"""The command line that starts the same run."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from mosaic.config.yaml import read_scalar

_TRAINING = {
    "worker": "--worker",
    "algorithm": "--algo",
    "total_timesteps": "--steps",
    "episodes": "--episodes",
    "stop_reward": "--stop-reward",
    "init": "--init",
}
_RESOURCES = {"num_workers": "--num-workers", "runtime": "--runtime", "ray_address": "--ray-address"}
_TOP = {"policy_configuration": "--policies", "seed": "--seed", "name": "--name"}
_OPTIONS = {"training": _TRAINING, "resources": _RESOURCES}


def train_command(document: Mapping[str, Any], seeds: int = 1) -> str:
    """`mosaic train …`, one option a line; it parses to the configuration that the document asks for."""
    return " \\\n  ".join(
        [f"mosaic train {shlex.quote(document['environment']['env_id'])}", *_options(document, seeds)]
    )


def _options(document: Mapping[str, Any], seeds: int) -> Iterator[str]:
    for section, options in _OPTIONS.items():
        for key, option in options.items():
            if key in document.get(section, {}):
                yield _option(option, document[section][key])
    for key, option in _TOP.items():
        if key in document:
            yield _option(option, document[key])
    for tag in document.get("tags", ()):
        yield _option("--tag", tag)
    for agent, policy in document.get("agents", {}).items():
        yield f"--agent {shlex.quote(f'{agent}={policy}')}"
    if seeds > 1:
        yield f"--seeds {seeds}"
    for path, value in _settings(document):
        yield f"--set {shlex.quote(f'{path}={_value(value)}')}"


def _option(name: str, value: Any) -> str:
    text = str(value)
    return f"{name}={shlex.quote(text)}" if text.startswith("-") else f"{name} {shlex.quote(text)}"


def _settings(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Everything that has no option of its own."""
    for section, values in document.items():
        if not isinstance(values, Mapping) or section == "agents":
            continue
        own = {*_OPTIONS.get(section, ()), *(("env_id",) if section == "environment" else ())}
        for key, value in values.items():
            if key not in own:
                yield from _leaves(f"{section}.{key}", value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    """One line per option, unless a name in it would be read as a path."""
    if isinstance(value, Mapping) and value and all(_is_plain(key) for key in value):
        for key, item in value.items():
            yield from _leaves(f"{path}.{key}", item)
    else:
        yield path, value


def _is_plain(key: str) -> bool:
    return bool(key) and key == key.strip() and not set(".=") & set(key)


def _value(value: Any) -> str:
    """Text without quotes where it would be read as that very text."""
    if isinstance(value, str) and value == value.strip() and value and value[0] not in '["{' and value != "null":
        try:
            if read_scalar(value) == value:
                return value
        except ValueError:
            pass  # it looks like a number that is none: in quotes it is text
    return json.dumps(value)
