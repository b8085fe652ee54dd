"""Plug-in registry: lists plug-ins without importing them, and imports them when used."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from mosaic.core.errors import MissingExtraError, MosaicError, unknown
from mosaic.core.extras import install_line

Group = Literal["mosaic.envs", "mosaic.policies", "mosaic.workers", "mosaic.sinks", "mosaic.listeners"]
_WORDS: dict[Group, str] = {
    "mosaic.envs": "environment family",
    "mosaic.policies": "policy",
    "mosaic.workers": "worker",
    "mosaic.sinks": "mirror",
    "mosaic.listeners": "listener",
}


@cache
def plugins(group: Group) -> dict[str, EntryPoint]:
    """Return the entry point of every installed plug-in by name; raise where two packages claim one name."""
    found: dict[str, EntryPoint] = {}
    for entry in entry_points(group=group):
        other = found.setdefault(entry.name, entry)
        if other.value != entry.value:
            raise MosaicError(
                f"Two packages offer the {_WORDS[group]} '{entry.name}': {other.value} and {entry.value}. "
                "Uninstall one of them."
            )
    return dict(sorted(found.items()))


def distributions(used: Iterable[tuple[Group, str]]) -> tuple[str, ...]:
    """Return the names of the installed packages that offer these plug-ins; other names are left out."""
    entries = (plugins(group).get(name) for group, name in used)
    return tuple(sorted({entry.dist.name for entry in entries if entry is not None and entry.dist is not None}))


def load_plugin(group: Group, name: str) -> Any:
    """Import the plug-in's package and return its object."""
    known = plugins(group)
    if name not in known:
        raise unknown(_WORDS[group], name, known)
    try:
        return known[name].load()
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"The {_WORDS[group]} '{name}' needs the Python package '{error.name}', which is not installed. "
            f"Type: {install_line(error.name or name)}"
        ) from error
