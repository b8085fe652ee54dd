"""Upgrade of documents of older versions to the current version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mosaic.core.errors import FormatError, shown

CURRENT_VERSION: Final = 2


def upgrade(data: Mapping[str, Any]) -> dict[str, Any]:
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
    return document


def _from_1(data: dict[str, Any]) -> dict[str, Any]:
    """Rename `environment.name` and `training.timesteps` of version 1."""
    return _renamed(_renamed(data, "environment", "name", "env_id"), "training", "timesteps", "total_timesteps")


def _renamed(data: dict[str, Any], section: str, old: str, new: str) -> dict[str, Any]:
    below = data.get(section)
    if not isinstance(below, Mapping) or old not in below:
        return data
    if new in below:
        raise FormatError(
            f"'{section}.{old}' (its name in version 1) and '{section}.{new}' are both in the document: remove one."
        )
    return {**data, section: {new if key == old else key: value for key, value in below.items()}}


_STEPS: Final[Mapping[int, Callable[[dict[str, Any]], dict[str, Any]]]] = {1: _from_1}
