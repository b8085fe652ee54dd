"""Metric curves of a run of any length, read from cached columns instead of the events."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
import weakref
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, unknown
from mosaic.telemetry.curves.cache_files import ColumnFiles, DamagedColumnsError, read_head
from mosaic.telemetry.curves.columns import Cells, Values
from mosaic.telemetry.curves.decode import Scanner
from mosaic.telemetry.events.event import AXES, MEASURES
from mosaic.telemetry.events.journal import CHUNK, next_whole, read_span

Axis = Literal["env_steps", "agent_steps", "episodes_total", "training_iteration", "timestamp", "seq"]
T = TypeVar("T")
_MARK_BYTES = 4096
_READ_ONLY = {errno.EACCES, errno.EPERM, errno.EROFS}
Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """Arrays of equal length, by ascending x. `low` and `high` keep every outlier that `mean` smooths away."""

    x: Floats
    low: Floats
    high: Floats
    mean: Floats


def thinned(x: Floats, y: Floats, buckets: int, start: float | None = None, stop: float | None = None) -> Curve:
    """Return the points with start ≤ x ≤ stop, at most `buckets` of them.

    More points than that are put into buckets of equal width in x; empty buckets are left out. A bucket's x is the mean
    of its points' x. Points of equal x keep their order.
    """
    keep = np.isfinite(x) & np.isfinite(y)
    if start is not None:
        keep &= x >= start
    if stop is not None:
        keep &= x <= stop
    if not keep.all():
        x, y = x[keep], y[keep]
    if np.any(x[1:] < x[:-1]):
        order = np.argsort(x, kind="stable")
        x, y = x[order], y[order]
    if len(x) <= buckets:
        return Curve(x, y, y, y)
    bounds = np.flatnonzero(np.diff(bucket_of(x, buckets), prepend=-1))
    counts = np.diff(bounds, append=len(x))
    low, high = np.minimum.reduceat(y, bounds), np.maximum.reduceat(y, bounds)
    return Curve(_means(x, bounds, counts), low, high, np.clip(_means(y, bounds, counts), low, high))


def bucket_of(x: Floats, buckets: int) -> NDArray[np.int64]:
    """Return the bucket number of each x; x ascends."""
    half = x / 2  # halved, because the width of the full range could overflow
    width = half[-1] - half[0]
    if width == 0:
        return np.zeros(len(x), np.int64)
    numbers: NDArray[np.int64] = np.minimum((half - half[0]) / width * buckets, buckets - 1).astype(np.int64)
    return numbers


def _means(values: Floats, bounds: NDArray[np.int64], counts: NDArray[np.int64]) -> Floats:
    return np.add.reduceat(values / np.repeat(counts, counts), bounds)  # divided first: a sum of huge values overflows


class Curves:
    """Metrics of one run; repeated queries are cheap and include what was stored since. Thread-safe.

    The columns are kept in the run's folder and extended by the next query of any process. Where that folder cannot be
    written they are kept in a temporary one, for as long as this object lives.
    """

    def __init__(self, run_folder: Path) -> None:
        self._events = run_folder / "metrics.jsonl"
        self._folder = run_folder / "cache" / "curves"
        self._files: ColumnFiles | None = None
        self._mutex = Lock()

    def names(self) -> tuple[str, ...]:
        """Return every metric the run has reported, axes first."""
        return self._use(_names) or ()

    def has(self, metric: str) -> bool:
        return bool(self._use(lambda files: metric in files.head.cells or _is_told_axis(files, metric)))

    def catch_up(self) -> None:
        """Read what was stored since the last query."""
        self._use(lambda files: None)

    def unread_bytes(self) -> int:
        """Return how many bytes of events a query would have to read first."""
        try:
            return max(0, self._events.stat().st_size - read_head(self._folder).source_end)
        except FileNotFoundError:
            return 0

    def query(
        self,
        metric: str,
        x: Axis = "env_steps",
        buckets: int = 500,
        start: float | None = None,
        stop: float | None = None,
    ) -> Curve:
        """Return a metric's visible points with start ≤ x ≤ stop, downsampled to at most `buckets`."""
        if x not in AXES:
            raise unknown("axis", x, AXES)
        if buckets < 1:
            raise InputError(f"A curve needs at least one bucket, not {buckets}.")
        points = self._use(lambda files: _points(files, metric, x))
        return thinned(*(points or (np.empty(0), np.empty(0))), buckets, start, stop)

    def table(self, kind: str = "iteration", names: Sequence[str] | None = None) -> dict[str, Values]:
        """Return the visible events of a kind as columns of equal length, NaN where an event lacks a number."""
        return self._use(lambda files: _table(files, kind, names)) or {}

    def _use(self, use: Callable[[ColumnFiles], T]) -> T | None:
        """Call `use` with the up-to-date columns and return its result; None while the run has no events."""
        if not self._events.exists():
            return None
        with self._mutex:
            files = self._files = self._files or ColumnFiles(self._writable_folder())
            with _locked(files.folder):
                try:
                    _extend(files, self._events)
                    return use(files)
                except DamagedColumnsError:
                    files.clear()
                    _extend(files, self._events)
                    return use(files)

    def _writable_folder(self) -> Path:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / "lock").open("ab").close()
        except OSError as error:
            if error.errno not in _READ_ONLY:
                raise
            folder = tempfile.mkdtemp(prefix="mosaic-curves-")
            weakref.finalize(self, shutil.rmtree, folder)
            return Path(folder)
        return self._folder


def _extend(files: ColumnFiles, events_path: Path) -> None:
    files.refresh()
    scanner = Scanner()
    fd = os.open(events_path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _mark(fd, files.head.source_end) != files.head.source_mark:
            files.clear()  # these columns belong to another file
        while True:
            columns, end, _ = next_whole(fd, files.head.source_end, scanner.columns, 4 * CHUNK)
            if not columns.kinds:
                return
            files.append(columns, end, _mark(fd, end))
    finally:
        os.close(fd)


def _mark(fd: int, end: int) -> int:
    """Return a checksum that tells whether the bytes before `end` are still those that were read."""
    start = max(0, end - _MARK_BYTES)
    return zlib.crc32(read_span(fd, start, end - start), end)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    with (folder / "lock").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _names(files: ColumnFiles) -> tuple[str, ...]:
    return (*(name for name in AXES if _is_told_axis(files, name)), *sorted(files.names()))


def _is_told_axis(files: ColumnFiles, name: str) -> bool:
    return name in AXES and bool(np.isfinite(files.frame(name)).any())


def _points(files: ColumnFiles, metric: str, x: str) -> tuple[Values, Values]:
    rows, y = _cells(files, metric)
    axis = files.frame(x)
    shown = _shown(files)
    if shown is not None:
        keep = shown[rows]
        rows, y = rows[keep], y[keep]
    everywhere = len(rows) == len(axis)
    return (axis if everywhere else axis[rows]), y


def _cells(files: ColumnFiles, metric: str) -> Cells:
    """Return a metric's numbers; an axis is also a metric, of iteration events."""
    if metric in AXES:
        values = files.frame(metric)
        rows = np.flatnonzero(_of_kind(files, "iteration") & np.isfinite(values)).astype(np.uint32)
        return Cells(rows, values[rows])
    cells = files.cells(metric)
    if not len(cells.rows) and files.head.rows and metric not in MEASURES:
        raise unknown("metric", metric, (*AXES, *MEASURES, *files.names()))
    return cells


def _of_kind(files: ColumnFiles, kind: str) -> NDArray[np.bool_]:
    kinds = files.head.kinds
    matches: NDArray[np.bool_] = files.frame("kind") == (kinds.index(kind) if kind in kinds else -1)
    return matches


def _shown(files: ColumnFiles) -> NDArray[np.bool_] | None:
    """Return which rows no later attempt has superseded; None where all are visible."""
    if not files.head.resumes:
        return None
    seq, attempt, steps = files.frame("seq"), files.frame("attempt"), files.frame("env_steps")
    shown = np.ones(files.head.rows, np.bool_)
    for point in files.head.resumes:
        shown &= ~((seq < point.seq) & (attempt < point.attempt) & (steps > point.from_env_steps))
    return shown


def _table(files: ColumnFiles, kind: str, names: Sequence[str] | None) -> dict[str, Values]:
    selected, shown = _of_kind(files, kind), _shown(files)
    if shown is not None:
        selected &= shown
    if names is None:
        names = [*AXES, *(name for name in files.names() if selected[files.cells(name).rows].any())]
    return {name: _filled(files, name)[selected] for name in names}


def _filled(files: ColumnFiles, name: str) -> Values:
    if name in AXES:
        return files.frame(name)
    cells = _cells(files, name)
    column = np.full(files.head.rows, np.nan)
    column[cells.rows] = cells.values
    return column
