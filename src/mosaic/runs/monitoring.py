"""Periodic tasks of a supervisor: limits, log rotation, index updates, and retries of failed writes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic
from typing import TypeAlias

from mosaic.core.errors import MosaicError
from mosaic.runs.lifecycle import LimitExceeded
from mosaic.runs.processes import below
from mosaic.runs.state_file import StateFile, log
from mosaic.store.index.index import Index
from mosaic.store.logs import STREAMS, WorkerLog
from mosaic.store.run_folder import RunFolder

PERIOD_S = 1.0  # of the checks, and of the updates of the index
LONG_BYTES = 2 << 20  # of events; fewer are read quickly enough while a page opens

_Stamp: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run; None means unlimited."""

    max_wall_s: float | None = None
    max_memory_mb: int | None = None

    def exceeded(self, elapsed_s: float, memory_mb: Callable[[], float], now_s: float) -> LimitExceeded | None:
        """Return the limit that was exceeded, if any.

        Memory is measured only if it is limited. Time is that of this attempt, by a monotonic clock.
        """
        if self.max_wall_s is not None and elapsed_s >= self.max_wall_s:
            return LimitExceeded(
                "wall time", f"its time limit of {self.max_wall_s:g} s (resources.max_wall_s) is over", now_s
            )
        if self.max_memory_mb is None:
            return None
        used_mb = memory_mb()
        if used_mb <= self.max_memory_mb:
            return None
        detail = f"its processes took {used_mb:.0f} MB, {self.max_memory_mb} MB are allowed (resources.max_memory_mb)"
        return LimitExceeded("memory", detail, now_s)


def prepare_curves(folder: RunFolder) -> bool:
    """Prepare the curves of a long run for its first viewer; return whether there was anything to prepare."""
    try:
        long = folder.metrics.stat().st_size >= LONG_BYTES
    except FileNotFoundError:
        return False
    if long:
        from mosaic.telemetry.curves.curves import Curves  # here: a supervisor is small, and most runs are short

        Curves(folder.path).catch_up()
    return long


class Publisher:
    """Thread that updates the index, so that an index kept busy by others delays no stop.

    The run folders are authoritative, not the index.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._index = folder, Index(folder.home)
        self._over = Event()
        self._published: _Stamp | None = None
        self._thread = Thread(target=self._run, name="publisher", daemon=True)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Publish one last time; wait at most `timeout_s`."""
        self._over.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        complained = False
        while True:
            last = self._over.is_set()
            try:
                self._publish()
            except Exception as error:  # noqa: BLE001 - the folders are authoritative: a run survives index errors
                if not complained:
                    log(f"the index was not updated: {error}")
                complained = True
            if last:
                return
            self._over.wait(PERIOD_S)

    def _publish(self) -> None:
        stamp = self._stamp()
        if stamp != self._published:
            self._index.refresh(self._folder)
            self._published = stamp

    def _stamp(self) -> _Stamp:
        """Return a value that changes when there is something to publish."""
        files = (path.stat() for path in (self._folder.state, self._folder.metrics) if path.exists())
        return tuple((file.st_mtime_ns, file.st_size) for file in files)


class FolderGoneError(MosaicError):
    """Error for a run whose folder was deleted or moved, so that nothing can be stored."""


class PeriodicChecks:
    def __init__(self, folder: RunFolder, state_file: StateFile, started_s: float) -> None:
        resources = None if folder.is_export() else folder.read_config().resources
        self._limits = RunLimits(resources.max_wall_s, resources.max_memory_mb) if resources else RunLimits()
        self._folder, self._state_file, self._started_s = folder, state_file, started_s
        self._publisher = Publisher(folder) if resources else None  # the index lists runs
        self._logs = [WorkerLog(folder, stream) for stream in STREAMS]
        self._complained = False
        self.due_s = monotonic()  # next check

    def look(self, now_s: float) -> LimitExceeded | None:
        """Run the periodic tasks if they are due and return a limit that was exceeded; a time limit is noticed on time.

        Raises FolderGoneError where the run's folder was deleted or moved away.
        """
        if now_s < self.due_s:
            return None
        over_s = self._started_s + (self._limits.max_wall_s or 0.0)
        self.due_s = over_s if now_s < over_s < now_s + PERIOD_S else now_s + PERIOD_S
        if not self._folder.exists():
            raise FolderGoneError(f"the folder of the run, {self._folder.path}, is gone")
        self._state_file.catch_up()
        self._rotate_logs()
        return self._limits.exceeded(now_s - self._started_s, _memory_mb, now_s)

    def _rotate_logs(self) -> None:
        try:
            for each in self._logs:
                each.rotate()
        except OSError as error:  # a full disk, for example: the run continues, and so does its log
            if not self._complained:
                log(f"the log was not rotated: {error}")
            self._complained = True

    def close(self, timeout_s: float) -> None:
        if self._publisher is not None:
            self._publisher.close(timeout_s)


def _memory_mb() -> float:
    """Return the memory of all processes that the run started, without the supervisor's own few megabytes."""
    return sum(row.memory_mb for row in below(os.getpid()))
