"""SQLite file behind the index: shared by many processes, verified row by row, replaced when it is damaged."""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, TypeVar

from mosaic.core.files import new_file
from mosaic.store.atomic import private_folder
from mosaic.store.errors import StorageError
from mosaic.store.index.summary import RunSummary
from mosaic.store.state import State

T = TypeVar("T")

SCHEMA = 5
_PATIENCE_S = 20.0
_COLUMNS = tuple(field.name for field in fields(RunSummary))
_TAGS, _STATE = (_COLUMNS.index(name) for name in ("tags", "state"))
_FLAGS = tuple(_COLUMNS.index(name) for name in ("imported", "hidden"))
_TABLE = "CREATE TABLE runs ({}, stamp, checksum, PRIMARY KEY (run_id))".format(
    ", ".join(f'"{name}"' for name in _COLUMNS)
)
_PUT = f"INSERT OR REPLACE INTO runs VALUES ({', '.join('?' * (len(_COLUMNS) + 2))})"
# Failures that a new file would not cure. All others count as damage: a damaged file fails in many ways.
_NOT_DAMAGE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_INTERRUPT,
    sqlite3.SQLITE_PROTOCOL,
}

Row = tuple[RunSummary, str]  # with the stamp of the state.json it was made from


class UnusableError(Exception):
    """Database that is missing, damaged, or of another version."""


class Database:
    """SQLite database; every use opens the file under a shared lock, and replacing it takes that lock exclusively."""

    def __init__(self, home: Path) -> None:
        self._path, self._lock = home / "index.sqlite", home / "index.lock"

    def rows(self) -> dict[str, Row]:
        """Return all rows by run id, newest first."""
        return self._use(_read)

    def change(self, put: Iterable[Row], gone: Iterable[str]) -> None:
        """Apply all changes or none."""
        put, gone = list(put), list(gone)

        def work(connection: sqlite3.Connection) -> None:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("DELETE FROM runs WHERE run_id = ?", [(run_id,) for run_id in gone])
            connection.executemany(_PUT, map(_values, put))
            connection.execute("COMMIT")

        self._use(work)

    def rebuild(self, collect: Callable[[], Iterable[Row]], *, always: bool = False) -> bool:
        """Replace the file, unless another process just did. Return whether this one did."""
        with self._locked(fcntl.LOCK_EX):
            if not always and self._is_sound():
                return False
            fresh = self._path.with_name(".index.new")
            try:
                for path in (fresh, Path(f"{self._path}-wal"), Path(f"{self._path}-shm")):
                    path.unlink(missing_ok=True)
                with new_file(self._path, fresh):
                    _make(fresh, collect())
            except (OSError, sqlite3.Error, ValueError, OverflowError) as error:
                raise StorageError(f"The index '{self._path}' cannot be created: {error}.") from error
            return True

    def exists(self) -> bool:
        return self._path.exists()

    def _use(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._locked(fcntl.LOCK_SH):
            return self._try(work)

    def _try(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if not self.exists():
            raise UnusableError("was missing")
        try:
            with closing(
                sqlite3.connect(
                    f"{self._path.absolute().as_uri()}?mode=rw", timeout=_PATIENCE_S, isolation_level=None, uri=True
                )
            ) as connection:
                connection.execute("PRAGMA synchronous=NORMAL")
                connection.execute("PRAGMA cell_size_check=ON")
                if connection.execute("PRAGMA user_version").fetchone() != (SCHEMA,):
                    raise UnusableError("was created by another version of Mosaic")
                return work(connection)
        except sqlite3.Error as error:
            # Text that is not UTF-8 raises an error without a code.
            code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT)
            if not self.exists() or code == sqlite3.SQLITE_READONLY_DBMOVED:
                raise UnusableError("was missing") from error
            if code & 0xFF in _NOT_DAMAGE:
                raise StorageError(f"The index '{self._path}' cannot be used: {error}.") from error
            raise UnusableError(f"was unusable ({error})") from error
        except (ValueError, TypeError, LookupError, OverflowError, MemoryError, RecursionError) as error:
            raise UnusableError("was damaged") from error

    def _is_sound(self) -> bool:
        try:
            return self._try(_check)
        except UnusableError:
            return False

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        try:
            private_folder(self._lock.parent)
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StorageError(f"The index '{self._path}' cannot be used: {error}.") from error
        try:
            fcntl.flock(descriptor, how)
            yield
        finally:
            os.close(descriptor)


def _make(path: Path, rows: Iterable[Row]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN")
        connection.execute(_TABLE)
        connection.executemany(_PUT, map(_values, rows))
        connection.execute(f"PRAGMA user_version={SCHEMA}")
        connection.execute("COMMIT")


def _check(connection: sqlite3.Connection) -> bool:
    _read(connection)
    return bool(connection.execute("PRAGMA quick_check(1)").fetchone() == ("ok",))


def _read(connection: sqlite3.Connection) -> dict[str, Row]:
    return {row[0]: _row(row) for row in connection.execute("SELECT * FROM runs ORDER BY queued_at DESC, run_id DESC")}


def _values(row: Row) -> list[object]:
    values = list(astuple(row[0]))
    values[_TAGS] = json.dumps(values[_TAGS])
    values[_STATE] = str(values[_STATE])
    for flag in _FLAGS:
        values[flag] = int(values[flag])
    return [*values, row[1], _checksum([*values, row[1]])]


def _row(values: tuple[Any, ...]) -> Row:
    """Raise ValueError for a row that differs from what was stored: SQLite itself checks structure, not content."""
    *summary, stamp, checksum = values
    if checksum != _checksum([*summary, stamp]):
        raise ValueError("a row does not match its checksum")
    summary[_TAGS] = tuple(json.loads(summary[_TAGS]))
    summary[_STATE] = State(summary[_STATE])
    for flag in _FLAGS:
        summary[flag] = bool(summary[flag])
    return RunSummary(*summary), stamp


def _checksum(values: list[object]) -> int:
    return zlib.crc32(repr(values).encode(errors="surrogatepass"))
