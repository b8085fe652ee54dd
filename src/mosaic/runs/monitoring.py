"""What a supervisor looks after while nothing happens: limits, and words that the disk did not take."""

from __future__ import annotations

import os
from time import monotonic

from mosaic.core.errors import MosaicError
from mosaic.runs.lifecycle import LimitExceeded
from mosaic.runs.limits import Limits
from mosaic.runs.processes import below
from mosaic.runs.publisher import Publisher
from mosaic.runs.state_file import Logbook, log
from mosaic.store.logs import STREAMS, WorkerLog
from mosaic.store.run_folder import RunFolder

_EVERY_S = 1.0


class FolderGoneError(MosaicError):
    """There is no place left for anything that the run does."""


class Chores:
    def __init__(self, folder: RunFolder, logbook: Logbook, started_s: float) -> None:
        resources = folder.read_config().resources
        self._limits = Limits(resources.max_wall_s, resources.max_memory_mb)
        self._folder, self._logbook, self._started_s = folder, logbook, started_s
        self._publisher = Publisher(folder)
        self._logs = [WorkerLog(folder, stream) for stream in STREAMS]
        self._complained = False
        self.due_s = monotonic()  # when to look again

    def look(self, now_s: float) -> LimitExceeded | None:
        """Something to do about, now and then; a limit of time is noticed on time.

        Raises FolderGoneError where the run's folder was deleted or moved away.
        """
        if now_s < self.due_s:
            return None
        over_s = self._started_s + (self._limits.max_wall_s or 0.0)
        self.due_s = over_s if now_s < over_s < now_s + _EVERY_S else now_s + _EVERY_S
        if not self._folder.exists():
            raise FolderGoneError(f"the folder of the run, {self._folder.path}, is gone")
        self._logbook.catch_up()
        self._rotate_logs()
        return self._limits.exceeded(now_s - self._started_s, _memory_mb, now_s)

    def _rotate_logs(self) -> None:
        try:
            for each in self._logs:
                each.rotate()
        except OSError as error:  # a full disk, for example: the run goes on, and so does its log
            if not self._complained:
                log(f"the log was not rotated: {error}")
            self._complained = True

    def close(self, timeout_s: float) -> None:
        self._publisher.close(timeout_s)


def _memory_mb() -> float:
    """Of everything that the run started. Our own few megabytes are not the worker's fault."""
    return sum(row.memory_mb for row in below(os.getpid()))
