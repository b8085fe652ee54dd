"""Cache of metric columns: append-only files, and a head that records how much of each counts.

The head is replaced after the columns have grown; data beyond its counts is ignored. Each column has a checksum, so a
power cut or a flipped bit is noticed, and the whole cache is rebuilt from the events.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import MosaicError
from mosaic.core.files import replace_file
from mosaic.telemetry.curves.columns import Cells, Columns, Values
from mosaic.telemetry.events.reader import ResumePoint

VERSION = 1
_EMPTY = np.empty(0)


class DamagedColumnsError(MosaicError):
    """Cache that does not match its head; rebuilding it helps."""


@dataclass(frozen=True)
class ColumnHead:
    """Number of values of a file that count, and their checksum."""

    file: str
    count: int = 0
    checksum: int = 0


@dataclass(frozen=True)
class CellsHead:
    rows: ColumnHead
    values: ColumnHead


@dataclass
class CacheHeader:
    source_end: int = 0
    """End of the part of the event file that the columns cover, in bytes."""
    source_mark: int = 0
    """Checksum of the last bytes before `source_end`."""
    rows: int = 0
    kinds: list[str] = field(default_factory=list)
    resumes: list[ResumePoint] = field(default_factory=list)
    frame: dict[str, ColumnHead] = field(default_factory=dict)
    cells: dict[str, CellsHead] = field(default_factory=dict)


class ColumnFiles:
    """Column files of one run, for one process at a time: the caller holds a lock."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.head = read_head(folder)
        self._loaded: dict[str, tuple[ColumnHead, NDArray[Any]]] = {}

    def refresh(self) -> None:
        """Read what other processes have added."""
        self.head = read_head(self.folder)

    def clear(self) -> None:
        for path in self.folder.glob("*.column"):
            path.unlink()
        self._loaded.clear()
        self._write_head(CacheHeader())

    def append(self, columns: Columns, source_end: int, source_mark: int) -> None:
        head = self.head
        occurring = dict.fromkeys(columns.kinds)
        kinds = {kind: code for code, kind in enumerate(dict.fromkeys([*head.kinds, *occurring]))}
        frame, cells = dict(head.frame), dict(head.cells)
        for name, values in {"kind": _codes(columns.kinds, occurring, kinds), **columns.frame}.items():
            frame[name] = self._grown(frame.get(name) or ColumnHead(f"frame-{len(frame)}.column"), values)
        for name, (rows, values) in columns.cells.items():
            number = len(cells)
            old = cells.get(name) or CellsHead(ColumnHead(f"{number}-rows.column"), ColumnHead(f"{number}.column"))
            cells[name] = CellsHead(self._grown(old.rows, rows + np.uint32(head.rows)), self._grown(old.values, values))
        total = head.rows + len(columns.kinds)
        resumes = [*head.resumes, *(_resume_points(columns) if "resumed" in occurring else ())]
        self._write_head(CacheHeader(source_end, source_mark, total, list(kinds), resumes, frame, cells))

    def frame(self, name: str) -> Values:
        """Return `kind` (a code), `attempt` or an axis: one value per row."""
        column = self.head.frame.get(name)
        return self._load(column, np.float64) if column else _EMPTY

    def cells(self, name: str) -> Cells:
        head = self.head.cells.get(name)
        if head is None:
            return Cells(np.empty(0, np.uint32), _EMPTY)
        return Cells(self._load(head.rows, np.uint32), self._load(head.values, np.float64))

    def names(self) -> list[str]:
        return list(self.head.cells)

    def _grown(self, column: ColumnHead, values: NDArray[Any]) -> ColumnHead:
        data = values.view(np.uint8).data
        fd = os.open(self.folder / column.file, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            _write_at(fd, data, column.count * values.itemsize)
        finally:
            os.close(fd)
        return ColumnHead(column.file, column.count + len(values), zlib.crc32(data, column.checksum))

    def _load(self, column: ColumnHead, dtype: type[np.generic]) -> NDArray[Any]:
        """Read and check only what was added since the last time."""
        have, values = self._loaded.get(column.file, (ColumnHead(column.file), np.empty(0, dtype)))
        if have == column:
            return values
        for count, checksum, start in ((have.count, have.checksum, values), (0, 0, values[:0])):
            more = self._read(column, dtype, count)
            if zlib.crc32(more.view(np.uint8).data, checksum) == column.checksum:
                values = np.concatenate([start, more]) if count else more
                self._loaded[column.file] = (column, values)
                return values
        raise DamagedColumnsError(f"'{self.folder / column.file}' is damaged.")

    def _read(self, column: ColumnHead, dtype: type[np.generic], start: int) -> NDArray[Any]:
        try:
            values = np.fromfile(
                self.folder / column.file,
                dtype,
                max(0, column.count - start),
                offset=start * np.dtype(dtype).itemsize,
            )
        except FileNotFoundError as error:
            raise DamagedColumnsError(f"'{self.folder / column.file}' is missing.") from error
        return values

    def _write_head(self, head: CacheHeader) -> None:
        path = self.folder / "head.json"
        body = json.dumps({"version": VERSION, **asdict(head)})
        text = json.dumps({"checksum": zlib.crc32(body.encode()), "body": body})
        replace_file(path, lambda new: new.write_text(text, "utf-8"), path.with_name("head.json.new"))
        self.head = head


def _codes(names: Sequence[str], occurring: Collection[str], kinds: Mapping[str, int]) -> Values:
    """Return the code of each name, without lookups in the usual case of a single kind."""
    if len(occurring) == 1:
        return np.full(len(names), float(kinds[names[0]]))
    return np.fromiter(map(kinds.__getitem__, names), np.float64, len(names))


def _resume_points(columns: Columns) -> list[ResumePoint]:
    cells = columns.cells.get("resumed/from_env_steps")
    starts = dict(zip(*cells, strict=True)) if cells else {}
    return [
        ResumePoint(int(columns.frame["seq"][row]), int(columns.frame["attempt"][row]), float(starts.get(row, 0)))
        for row, kind in enumerate(columns.kinds)
        if kind == "resumed"
    ]


def _write_at(fd: int, data: memoryview, position: int) -> None:
    while data:
        written = os.pwrite(fd, data, position)
        data, position = data[written:], position + written


def read_head(folder: Path) -> CacheHeader:
    """Return the head; an empty one, so that the columns are rebuilt, where there is none or it cannot be read."""
    try:
        outer = json.loads((folder / "head.json").read_bytes())
        body = outer["body"]
        if zlib.crc32(body.encode()) != outer["checksum"]:
            return CacheHeader()
        data = json.loads(body)
        if data.pop("version") != VERSION:
            return CacheHeader()
    except (FileNotFoundError, ValueError, TypeError, KeyError, AttributeError):
        return CacheHeader()
    data["resumes"] = [ResumePoint(*point) for point in data["resumes"]]
    data["frame"] = {name: ColumnHead(**column) for name, column in data["frame"].items()}
    data["cells"] = {
        name: CellsHead(ColumnHead(**cells["rows"]), ColumnHead(**cells["values"]))
        for name, cells in data["cells"].items()
    }
    return CacheHeader(**data)
