"""How a document of an older version becomes one of the current version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mosaic.core.errors import FormatError, shown

CURRENT_VERSION: Final = 2


def upgrade(data: Mapping[str, Any]) -> dict[str, Any]:
    """The same document in the current version. Without a version it is taken to be current already."""
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
    return document


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Version 1 said `environment.name` and `training.timesteps`."""
    return _renamed(_renamed(data, "environment", "name", "env_id"), "training", "timesteps", "total_timesteps")


def _renamed(data: dict[str, Any], section: str, old: str, new: str) -> dict[str, Any]:
    below = data.get(section)
    if not isinstance(below, Mapping) or old not in below:
        return data
    if new in below:
        raise FormatError(
            f"'{section}.{old}' (its name in version 1) and '{section}.{new}' both stand in the document: remove one."
        )
    return {**data, section: {new if key == old else key: value for key, value in below.items()}}


_STEPS: Final[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {1: _from_1}
