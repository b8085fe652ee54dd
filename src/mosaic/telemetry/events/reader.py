"""Reader of stored events, also while they are being written, and filter of those that a resume superseded."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from pathlib import Path
from threading import Event
from types import TracebackType
from typing import NamedTuple, Self

from mosaic.core.errors import FormatError
from mosaic.telemetry.events.event import MetricEvent, is_number
from mosaic.telemetry.events.journal import next_events, start_after


class ResumePoint(NamedTuple):
    """Point from which `attempt` replaces the attempts before it."""

    seq: int
    attempt: int
    from_env_steps: float


def resume_point(event: MetricEvent) -> ResumePoint | None:
    """Return the resume point of a `resumed` event, at 0 where it names none: the run started over."""
    if event["kind"] != "resumed":
        return None
    start = event.get("from_env_steps")
    return ResumePoint(event["seq"], event["attempt"], start if is_number(start) else 0)


def resume_points(events: Iterable[MetricEvent]) -> list[ResumePoint]:
    return [point for event in events if (point := resume_point(event))]


def is_hidden(event: MetricEvent, points: Iterable[ResumePoint]) -> bool:
    """Return whether a later attempt superseded this event. Events without env_steps (alerts) are always visible."""
    steps = event.get("env_steps")
    return is_number(steps) and any(
        event["seq"] < point.seq and event["attempt"] < point.attempt and steps > point.from_env_steps
        for point in points
    )


def visible(events: Iterable[MetricEvent]) -> list[MetricEvent]:
    """Return the visible events of a run: from each resume point on, only those of the newest attempt."""
    kept = list(events)
    points = resume_points(kept)
    return [event for event in kept if not is_hidden(event, points)] if points else kept


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
