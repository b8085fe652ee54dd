"""Settings in which configurations differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

_OWN = {"run_id", "name"}  # always differ and mean nothing
_NOT_COMPARED = {*_OWN, "seed", "tags"}


def differences(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Dotted setting → its value in each configuration, for those that are not the same in all."""
    flat = [dict(_flatten(config)) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one if key not in _OWN)
    found = {key: [one.get(key) for one in flat] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def settings_key(config: Mapping[str, Any]) -> str:
    """Return a text that is equal for runs that differ in seed, name and tags alone: their scores can be pooled."""
    return json.dumps({key: value for key, value in config.items() if key not in _NOT_COMPARED}, sort_keys=True)


def env_key(config: Mapping[str, Any]) -> str:
    """Return a text that is equal for runs whose returns can be compared: the same env with the same options."""
    environment = config.get("environment") or {}
    name = "/".join(filter(None, (environment.get("family"), environment.get("env_id"))))
    options = environment.get("options") or {}
    return name + (f" {json.dumps(options, sort_keys=True)}" if options else "")


def _flatten(config: Mapping[str, Any], above: str = "") -> Any:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
