"""Writer that appends events atomically, one write each."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import Self

from mosaic.core.errors import FormatError, MosaicError
from mosaic.telemetry.events.event import encode
from mosaic.telemetry.events.journal import last_whole, read_span


class EventWriter:
    """Writer that appends events to one file; the file's lock allows at most one at a time.

    Opening it cuts off a torn end, reports that as an alert, and continues with the next `seq`.
    """

    def __init__(self, path: Path, attempt: int, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self.attempt = attempt
        self.dropped_bytes = 0
        self._clock = clock
        self._mutex = Lock()
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            self._end, self._seq = self._claim()
            if self.dropped_bytes:
                self.report(
                    kind="alert",
                    message=f"The last {self.dropped_bytes} bytes of the metrics were incomplete and were dropped; "
                    f"the event before them has seq {self._seq}.",
                    dropped_bytes=self.dropped_bytes,
                )
        except BaseException:
            self.close()
            raise

    @property
    def seq(self) -> int:
        """Return the seq of the last event stored; 0 before the first."""
        return self._seq

    def report(self, event: Mapping[str, object] | None = None, /, **fields: object) -> int:
        """Store an event and return its seq; after that, no process's death can lose the event."""
        if event:
            fields = {**event, **fields}
        if "seq" in fields or "attempt" in fields:
            raise TypeError("seq and attempt are set by the writer; leave them out.")
        kind = fields.pop("kind", "iteration")
        if not isinstance(kind, str):
            raise TypeError(f"An event's kind is a string, not {kind!r}.")
        with self._mutex:
            seq = self._seq + 1
            record = {"kind": kind, "seq": seq, "attempt": self.attempt, "timestamp": self._clock(), **fields}
            self._append(encode(record) + b"\n")
            self._seq = seq
        return seq

    def sync(self) -> None:
        """Make every event stored so far survive a power loss, not only the death of processes."""
        with self._mutex:
            if self._fd >= 0:
                os.fsync(self._fd)

    def close(self) -> None:
        with self._mutex:
            fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _claim(self) -> tuple[int, int]:
        """Lock the file and cut off its torn end."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise MosaicError(
                f"Another process is writing '{self.path}': an attempt of this run is still alive. Stop it first."
            ) from error
        size = os.fstat(self._fd).st_size
        end, seq = last_whole(self._fd)
        if not end and b"\n" in read_span(self._fd, 0, size):
            raise FormatError(f"'{self.path}' holds no metric events; it was left unchanged. Choose another file.")
        if end < size:
            os.ftruncate(self._fd, end)
            self.dropped_bytes = size - end
        return end, seq

    def _append(self, line: bytes) -> None:
        if self._fd < 0:
            raise ValueError(f"The event writer of '{self.path}' is closed.")
        try:
            written = os.write(self._fd, line)
            while written < len(line):  # a full disk accepts a part first and then fails
                written += os.write(self._fd, line[written:])
        except OSError as error:
            self._cut_back()
            reason = f"{error.strerror}: the event with seq {self._seq + 1} was not stored; all before it were"
            raise OSError(error.errno, reason, str(self.path)) from error
        self._end += len(line)

    def _cut_back(self) -> None:
        try:
            os.ftruncate(self._fd, self._end)
        except OSError:
            os.close(self._fd)  # a later event must not be appended to a torn one; the next writer repairs it
            self._fd = -1
            raise
