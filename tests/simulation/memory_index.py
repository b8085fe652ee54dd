"""The index's database in memory: found, lost or refused at random. Its own file is tested with real SQLite."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from mosaic.store.errors import StorageError
from mosaic.store.index.database import Row, UnusableError

if TYPE_CHECKING:
    from tests.simulation.world import World


class MemoryDatabase:
    def __init__(self, world: World) -> None:
        self._world = world

    def rows(self) -> dict[str, Row]:
        self._use()
        assert self._world.rows is not None
        found = sorted(self._world.rows.items(), key=lambda item: (item[1][0].queued_at, item[0]), reverse=True)
        return dict(found)

    def change(self, put: Iterable[Row], gone: Iterable[str]) -> None:
        self._use()
        assert self._world.rows is not None
        for run_id in gone:
            self._world.rows.pop(run_id, None)
        self._world.rows.update({row[0].run_id: row for row in put})

    def rebuild(self, collect: Callable[[], Iterable[Row]], *, always: bool = False) -> bool:
        self._world.kernel.call("index", effect=True)
        rows = {row[0].run_id: row for row in collect()}
        if self._world.rows is not None and not always:
            return False
        self._world.rows = rows
        return True

    def exists(self) -> bool:
        return self._world.rows is not None

    def _use(self) -> None:
        self._world.kernel.call("index", effect=True)
        draw = self._world.rng.random() if self._world.striking else 1.0
        if draw < 0.01:
            self._world.rows = None
        elif draw < 0.02:
            raise StorageError("The index cannot be used: the database is locked.")
        if self._world.rows is None:
            raise UnusableError("was missing")
