"""Reader of a run's live pictures from another process: the newest frame, each at most once, and the writer's state.

Usage:

    with FrameReader(run_folder) as reader:
        reader.look(rate=30)
        frame = reader.read()  # once per screen refresh
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError
from mosaic.core.proc import started_at
from mosaic.telemetry.frames.fences import holds, newest
from mosaic.telemetry.frames.layout import (
    AGENT_AT,
    AGENT_BYTES,
    FACTS,
    FACTS_AT,
    LABEL,
    LABEL_AT,
    PIXELS_AT,
    FrameShape,
    FrameValues,
    RingPhase,
)
from mosaic.telemetry.frames.requests import FrameRequest, RequestArea, checked
from mosaic.telemetry.frames.ring_file import FrameRing, open_ring

StreamState = Literal["waiting", "live", "stalled", "finished", "writer died"]
STALLED_AFTER_NS = 2_000_000_000
_TRIES = 8  # a writer at full speed may overtake a copy; after this many in a row `read` returns None


class Frame(NamedTuple):
    """Copied frame: later changes in the run do not affect it."""

    number: int  # counts the writer's frames; gaps are frames overtaken by newer ones
    pixels: NDArray[np.uint8]  # height × width × 3, or height × width
    step: int
    episode: int
    env: int
    agent: str
    wall_time: float
    reward: float
    ret: float


class FrameReader:
    """Reader that follows a run: it may be opened before the first picture, and survives recreated rings."""

    def __init__(self, run_folder: Path, clock_ns: Callable[[], int] = monotonic_ns) -> None:
        self._run_folder, self._clock_ns = run_folder, clock_ns
        self._ring: FrameRing | None = None
        self._area: RequestArea | None = None
        self._request: FrameRequest | None = None
        self._last = 0
        self._seen, self._seen_ns, self._moved = 0, clock_ns(), False
        self._follow()
        self._seen = newest(self._ring.address) if self._ring is not None else 0  # older than this reader

    def look(self, rate: float = 30.0, env: int = 0, grid: int = 1) -> None:
        """Request pictures. A request holds for two seconds; each `read` repeats it."""
        self._request = checked(FrameRequest(rate, env, grid))
        self._follow()
        self._beat()

    def read(self) -> Frame | None:
        """Return the newest frame, if it was not read before. One may remain after the state is `finished`."""
        self._follow()
        self._beat()
        for _ in range(_TRIES if self._ring is not None else 0):
            assert self._ring is not None
            number = newest(self._ring.address)
            if number <= self._last:
                return None
            frame = _copy(self._ring, number)
            if frame is not None:
                self._last = number
                return frame
        return None

    def state(self) -> StreamState:
        """Return the writer's state.

        `stalled`: the writer is alive but has published nothing for two seconds, or for three requested intervals.
        """
        self._follow()
        ring, now = self._ring, self._clock_ns()
        if ring is None:
            return "waiting"
        phase = ring.phase
        if phase is RingPhase.FINISHED:
            return "finished"
        if phase is RingPhase.GIVEN_UP or started_at(ring.head.writer_pid) != ring.head.writer_started:
            return "finished" if ring.phase is RingPhase.FINISHED else "writer died"  # it may have ended in between
        number = newest(ring.address)
        if number > self._seen:
            self._seen, self._seen_ns, self._moved = number, now, True
        interval_ns = 1e9 / self._request.rate_hz if self._request else 0
        if now - self._seen_ns <= max(STALLED_AFTER_NS, 3 * interval_ns):
            return "live" if self._moved else "waiting"
        return "stalled" if number else "waiting"

    def close(self) -> None:
        """Stop requesting pictures; the ring and its other readers are not affected."""
        if self._area is not None:
            self._area.leave()
        self._ring = self._area = self._request = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _follow(self) -> None:
        """Switch to the run's current ring."""
        old = self._ring
        if old is not None and old.phase is not RingPhase.REPLACED and newest(old.address) > self._last:
            return
        if old is not None and old.is_at_its_path():
            return
        ring = open_ring(self._run_folder)
        if ring is None:
            return  # the last ring remains open
        if old is None or old.head.writer_id != ring.head.writer_id:
            self._last = 0
            self._seen, self._seen_ns, self._moved = 0, self._clock_ns(), False
        self._ring, self._area = ring, None

    def _beat(self) -> None:
        if self._ring is None or self._request is None:
            return
        now = self._clock_ns()
        if self._area is None:
            self._area = RequestArea(self._ring.address, self._request, now)
        self._area.look(self._request, now)


def _copy(ring: FrameRing, number: int) -> Frame | None:
    """Copy a frame; return None where the writer reused the slot in the meantime."""
    offset = ring.offset(number)
    slot = ring.address + offset
    if not holds(slot, number):
        return None
    start = ring.memory[offset : offset + PIXELS_AT]
    label = FrameShape(*LABEL.unpack_from(start, LABEL_AT))
    pixels = ring.pixels(number, label.length).copy()
    if not holds(slot, number):
        return None
    if not len(pixels) == label.length == label.height * label.width * label.channels:
        raise FormatError(f"{ring.path} is damaged: frame {number} has an impossible size.")
    facts = FrameValues(*FACTS.unpack_from(start, FACTS_AT))
    shape = (label.height, label.width) if label.channels == 1 else label[:3]
    text = start[AGENT_AT : AGENT_AT + min(label.agent_length, AGENT_BYTES)]
    agent = text.decode(errors="ignore")  # a long name may be cut inside a character
    return Frame(number, pixels.reshape(shape), *facts[:3], agent, *facts[3:])


class Pictures(Protocol):
    """Source of pictures, polled as often as a screen is drawn. Not polled for two seconds, the run stops rendering."""

    def newest(self) -> Frame | None:
        """Return the newest frame; None where nothing new came since the last call."""
        ...

    @property
    def state(self) -> StreamState: ...

    def close(self) -> None: ...


class LivePictures:
    """Pictures of a run on this machine."""

    def __init__(self, run_folder: Path, request: FrameRequest) -> None:
        self._request = checked(request)
        self._reader = FrameReader(run_folder)

    def newest(self) -> Frame | None:
        self._reader.look(*self._request)
        return self._reader.read()

    @property
    def state(self) -> StreamState:
        return self._reader.state()

    def close(self) -> None:
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
