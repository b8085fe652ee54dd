"""Reader of stored events, also while they are being written."""

from __future__ import annotations

import os
from collections.abc import Generator
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import Self

from mosaic.core.errors import FormatError
from mosaic.telemetry.events.event import MetricEvent
from mosaic.telemetry.events.journal import next_events, start_after
from mosaic.telemetry.events.resume_filter import visible as visible


class EventTail:
    """Position in an event file: `read()` returns events stored after it, each once. The file may appear later."""

    def __init__(self, path: Path, after_seq: int = 0) -> None:
        self.path = path
        self.seq = after_seq
        self._fd = -1
        self._position = 0

    def read(self) -> list[MetricEvent]:
        """Return the next events, some thousands at most; none where the writer has not stored more yet.

        An incomplete line is never kept: the writer may remove it.
        """
        if not self._opened():
            return []
        if os.fstat(self._fd).st_size < self._position:
            raise FormatError(f"'{self.path}' lost events that had already been read: only its writer may change it.")
        while events := self._next():
            fresh = events if events[0]["seq"] > self.seq else [event for event in events if event["seq"] > self.seq]
            if fresh:
                self.seq = fresh[-1]["seq"]
                return fresh
        return []

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _next(self) -> list[MetricEvent]:
        events, self._position, _ = next_events(self._fd, self._position)
        return events

    def _opened(self) -> bool:
        if self._fd < 0:
            try:
                self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            except FileNotFoundError:
                return False
            self._position = start_after(self._fd, self.seq) if self.seq else 0
        return True


def read_events(path: Path, after_seq: int = 0) -> Generator[MetricEvent, None, None]:
    """Yield every event stored so far, in the order of seq (not of time: clocks jump); none where there is no file."""
    with EventTail(path, after_seq) as tail:
        while events := tail.read():
            yield from events


def follow(
    path: Path, after_seq: int = 0, stop: Event | None = None, poll_s: float = 0.05
) -> Generator[MetricEvent, None, None]:
    """Yield every past and future event until `stop` is set; events stored before that are still yielded."""
    stop = stop or Event()
    with EventTail(path, after_seq) as tail:
        while True:
            last = stop.is_set()
            while events := tail.read():
                yield from events
            if last:
                return
            stop.wait(poll_s)
