"""Version of this package, which is defined only here, and of the packages that results depend on."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType

VERSION = "0.1.0"
_PACKAGES = (
    *("mosaic-rl", "gymnasium", "pettingzoo", "mpe2", "numpy", "pymunk", "Box2D", "rlcard", "open-spiel"),
    *("mujoco", "pygame-ce", "shimmy"),
)


def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that determine what an episode looks like."""
    return versions_of(_PACKAGES)


@cache
def versions_of(packages: tuple[str, ...]) -> Mapping[str, str]:
    """Return the versions of Python and of those of the packages that are installed, without importing them."""
    import platform
    from importlib.metadata import PackageNotFoundError, version

    found = {"python": platform.python_version()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue  # an optional package that is not installed played no part
    return MappingProxyType(found)
