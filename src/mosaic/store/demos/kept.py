"""Demonstrations of this machine, with the verbs that command line and screens use; `RemoteDemos` has the same."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mosaic.core.episode import Episode
from mosaic.store.demos.demonstration import Demonstrations
from mosaic.store.demos.editing import drop, drop_last, filter_by_return, trim
from mosaic.store.demos.summary import DemoDetails, DemoRow, demo_details, demo_rows
from mosaic.store.demos.transfer import export_demo, import_archive, import_episode


class KeptDemos:
    """Demonstrations of a store; `home` is $MOSAIC_HOME unless given."""

    def __init__(self, home: Path | None = None) -> None:
        self.store = Demonstrations(home)

    def rows(self) -> tuple[list[DemoRow], list[str]]:
        """Return all, newest first, and problems with recordings that were interrupted."""
        return demo_rows(self.store)

    def details(self, name: str) -> DemoDetails:
        return demo_details(self.store, name)

    def drop(self, name: str, episodes: Collection[int] = (), last: int | None = None) -> DemoDetails:
        """Drop episodes with these numbers, or else the last ones; 1 if None."""
        if episodes:
            drop(self.store, name, set(episodes))
        else:
            drop_last(self.store, name, last or 1)
        return self.details(name)

    def trim(self, name: str, episode: int | None, first: int, last: int | None) -> DemoDetails:
        trim(self.store, name, episode, first, last)
        return self.details(name)

    def filter(self, name: str, agent: str | None, least: float | None, most: float | None) -> DemoDetails:
        filter_by_return(self.store, name, agent, least, most)
        return self.details(name)

    def delete(self, name: str) -> None:
        self.store.delete(name)

    def export(self, name: str, target: Path) -> Path:
        return export_demo(self.store.open(name), target)

    def add_archive(self, name: str | None, path: Path) -> DemoDetails:
        return self.details(import_archive(self.store, name, path).name)

    def add_episode(self, name: str, episode: Episode) -> DemoDetails:
        return self.details(import_episode(self.store, name, episode).name)
