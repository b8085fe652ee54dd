"""Lazily imported names of modules, and mappings whose values are computed on first use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import TypeVar

from mosaic.core.errors import nearest


def lazy_names(
    module: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module whose names are imported from their homes on first use.

    `homes` maps a module to the names that are imported from it; a module without names is itself exported.
    """
    home_of = {name: home for home, names in homes.items() for name in names or (home.rpartition(".")[2],)}

    def load(name: str) -> object:
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


K = TypeVar("K")
V = TypeVar("V")


class Lookup(dict[K, V]):
    """Dictionary that computes a missing value from its key, once."""

    def __init__(self, ask: Callable[[K], V], keys: Iterable[K] = ()) -> None:
        super().__init__((key, ask(key)) for key in keys)
        self._ask = ask

    def __missing__(self, key: K) -> V:
        value = self[key] = self._ask(key)
        return value
