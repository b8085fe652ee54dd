"""Versions of the packages that produced an episode."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from types import MappingProxyType

_PACKAGES = ("mosaic-rl", "gymnasium", "pettingzoo", "mpe2", "numpy", "pymunk", "Box2D", "rlcard", "open-spiel")


@cache
def versions() -> Mapping[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # an optional package that is not installed played no part
    return MappingProxyType(found)
