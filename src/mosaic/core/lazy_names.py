"""Lazily imported module attributes, so that importing a package with many public names stays cheap."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from mosaic.core.errors import nearest


def lazy_names(
    module: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module whose names are imported from their homes on first use.

    `homes` maps a module to the names that are imported from it; a module without names is itself exported.
    """
    home_of = {name: home for home, names in homes.items() for name in names or (home.rpartition(".")[2],)}

    def load(name: str) -> Any:
        home = home_of.get(name)
        if home is None:
            near = nearest(name, home_of)
            hint = f". Did you mean {near!r}?" if near else ""
            raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
        loaded = import_module(home)
        return getattr(loaded, name) if homes[home] else loaded

    def names() -> list[str]:
        return sorted({*vars(import_module(module)), *home_of})

    return load, names
