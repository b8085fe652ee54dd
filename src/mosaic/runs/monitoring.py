"""Periodic tasks of a supervisor: limits, use of the machine, log rotation, index updates, retries of failed writes."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event, Thread
from time import monotonic, time
from typing import TypeAlias

from mosaic.core.errors import MosaicError
from mosaic.core.machine import GPU_TABLE, Gpu, has_gpu_tool, parse_gpus
from mosaic.runs.lifecycle import LimitExceeded
from mosaic.runs.processes import below
from mosaic.runs.state_file import StateFile, log
from mosaic.store.index.index import Index
from mosaic.store.logs import STREAMS, WorkerLog
from mosaic.store.run_folder import RunFolder
from mosaic.store.usage import FIRST_INTERVAL_S, UsageSample, append_usage, interval_s

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


class GpuMeter:
    """Load of the machine's GPUs, from the driver's tool, which runs between two looks: no look waits for it."""

    def __init__(self) -> None:
        self._tool: subprocess.Popen[str] | None = None
        self._exists = has_gpu_tool()
        self._last: tuple[Gpu, ...] = ()

    def look(self) -> tuple[Gpu, ...]:
        """Return what the tool said last, and ask it again unless it still runs."""
        if not self._exists:
            return ()
        if self._tool is not None:
            if self._tool.poll() is None:
                return self._last
            self._last = parse_gpus(self._tool.communicate()[0])
        self._tool = subprocess.Popen(GPU_TABLE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        return self._last

    def close(self) -> None:
        if self._tool is not None:
            self._tool.kill()
            self._tool.communicate()


class UsageMeter:
    """Samples of the cores and memory that the processes of a run use, and of the machine's GPUs."""

    def __init__(self, folder: RunFolder, started_s: float) -> None:
        self._folder, self._started_s = folder, started_s
        self._cpu_s: dict[tuple[int, float], float] = {}  # of each process at the last sample
        self._last_s = started_s
        self._due_s = started_s + FIRST_INTERVAL_S
        self._complained = False
        self.gpus = GpuMeter()

    def look(self, now_s: float) -> None:
        if now_s < self._due_s:
            return
        rows = below(os.getpid())
        cpu_s = {(row.pid, row.start_time): row.cpu_s for row in rows}
        used_s = sum(value - self._cpu_s.get(process, 0.0) for process, value in cpu_s.items())
        cores = max(0.0, used_s) / (now_s - self._last_s)
        self._cpu_s, self._last_s, self._due_s = cpu_s, now_s, now_s + interval_s(now_s - self._started_s)
        gpus = self.gpus.look()
        percent = sum(gpu.busy for gpu in gpus) / len(gpus) if gpus else None
        used_mb = sum(gpu.used_gb for gpu in gpus) * 1000 if gpus else None
        sample = UsageSample(time(), cores, sum(row.memory_mb for row in rows), percent, used_mb)
        try:
            append_usage(self._folder, sample)
        except OSError as error:  # a full disk, for example: the run continues
            if not self._complained:
                log(f"the use of the machine was not written: {error}")
            self._complained = True


class PeriodicChecks:
    def __init__(self, folder: RunFolder, state_file: StateFile, started_s: float) -> None:
        resources = None if folder.is_export() else folder.read_config().resources
        self._limits = RunLimits(resources.max_wall_s, resources.max_memory_mb) if resources else RunLimits()
        self._folder, self._state_file, self._started_s = folder, state_file, started_s
        self._publisher = Publisher(folder) if resources else None  # the index lists runs
        self._logs = [WorkerLog(folder, stream) for stream in STREAMS]
        self._usage = UsageMeter(folder, started_s) if resources else None
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
        if self._usage is not None:
            self._usage.look(now_s)
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
        if self._usage is not None:
            self._usage.gpus.close()
        if self._publisher is not None:
            self._publisher.close(timeout_s)


def _memory_mb() -> float:
    """Return the memory of all processes that the run started, without the supervisor's own few megabytes."""
    return sum(row.memory_mb for row in below(os.getpid()))
