"""In which settings configurations differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_OWN = {"run_id", "name"}  # differ always and say nothing


def differences(configs: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Dotted setting → its value in each configuration, for those that are not the same in all."""
    flat = [dict(_flatten(config)) for config in configs]
    keys = dict.fromkeys(key for one in flat for key in one if key not in _OWN)
    found = {key: [one.get(key) for one in flat] for key in keys}
    return {key: values for key, values in found.items() if any(value != values[0] for value in values)}


def _flatten(config: Mapping[str, Any], above: str = "") -> Any:
    for key, value in config.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value
