"""Parser of event files that finds whole events and skips damaged lines."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from operator import itemgetter
from typing import Any, Generic, NamedTuple, TypeVar, cast

import msgspec

from mosaic.telemetry.events.event import MetricEvent

T = TypeVar("T")
logger = logging.getLogger(__name__)
CHUNK = 4 << 20
_PROBE = 64 << 10
_decoder = msgspec.json.Decoder(dict[str, Any])
_TYPES: tuple[tuple[str, type], ...] = (("seq", int), ("attempt", int), ("kind", str))


class Whole(NamedTuple, Generic[T]):
    found: T
    end: int
    """Start of the line after the last whole event. Damaged lines after it may still be cut off by a repair."""
    damaged: int
    """Number of lines before `end` that are not events: they stay, and are skipped."""


class Tail(NamedTuple):
    end: int
    seq: int


def whole_events(data: bytes) -> Whole[list[MetricEvent]]:
    """Parse the events in `data`, which begins at the start of a line; an unterminated line does not count yet."""
    cut = data.rfind(b"\n") + 1
    lines = data if cut == len(data) else data[:cut]
    try:
        events = _decoder.decode_lines(lines)
        if all(set(map(type, map(itemgetter(key), events))) <= {kind} for key, kind in _TYPES):
            return Whole(cast("list[MetricEvent]", events), cut if events else 0, 0)
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError):
        pass  # one of the lines is damaged: find out which
    return _line_by_line(lines)


def _line_by_line(lines: bytes) -> Whole[list[MetricEvent]]:
    events: list[MetricEvent] = []
    position = end = damaged = pending = 0
    for line in lines.split(b"\n")[:-1]:
        position += len(line) + 1
        event = _event(line)
        if event is None:
            pending += 1
        else:
            events.append(event)
            damaged, pending, end = damaged + pending, 0, position
    return Whole(events, end, damaged)


def _event(line: bytes) -> MetricEvent | None:
    try:
        event = _decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    whole = all(type(event.get(key)) is kind for key, kind in _TYPES)
    return cast("MetricEvent", event) if whole else None


def read_span(fd: int, start: int, length: int) -> bytes:
    """Read up to `length` bytes from `start`, fewer only at the end of the file."""
    parts: list[bytes] = []
    while length > 0 and (part := os.pread(fd, length, start)):
        parts.append(part)
        start, length = start + len(part), length - len(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def next_events(fd: int, start: int) -> Whole[list[MetricEvent]]:
    """Read the next events from byte `start`, about a chunk of them; `end` counts from the start of the file."""
    return next_whole(fd, start, whole_events, CHUNK)


def next_whole(fd: int, start: int, read: Callable[[bytes], Whole[T]], chunk: int) -> Whole[T]:
    """Apply `read` to about a chunk of bytes from `start`; `end` counts from the start of the file."""
    while True:
        data = read_span(fd, start, chunk)
        found, end, damaged = read(data)
        if damaged:  # or a writer removed a torn line while we read it
            data = read_span(fd, start, chunk)
            found, end, damaged = read(data)
        if damaged:
            logger.warning("Skipped %d damaged lines between bytes %d and %d.", damaged, start, start + end)
        if end or len(data) < chunk:
            return Whole(found, start + end, damaged)
        chunk *= 4  # a line longer than the chunk, or a long damaged stretch


def last_whole(fd: int) -> Tail:
    """Return the end of the last whole event and its seq; zeros where there is none."""
    size, span = os.fstat(fd).st_size, _PROBE
    while True:
        start = max(0, size - span)
        data = read_span(fd, start, size - start)
        first = data.find(b"\n") + 1 if start else 0  # the first line may have begun before
        events, end, _ = whole_events(data[first:])
        if events:
            return Tail(start + first + end, events[-1]["seq"])
        if not start:
            return Tail(0, 0)
        span *= 4


def start_after(fd: int, seq: int) -> int:
    """Return the start of a line at most about a chunk before the first event after `seq`; seq only grows."""
    low, high = 0, os.fstat(fd).st_size
    while high - low > CHUNK:
        middle = (low + high) // 2
        data = read_span(fd, middle, _PROBE)
        first = data.find(b"\n") + 1
        events = whole_events(data[first:]).found if first else []
        if events and events[0]["seq"] <= seq and middle + first < high:
            low = middle + first
        else:
            high = middle
    return low
