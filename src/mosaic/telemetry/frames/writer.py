"""Writer of a run's live pictures: one writer, any number of readers, newest wins, no cost without viewers.

    with FrameWriter(run_folder) as writer:
        ...
        if writer.wanted():
            writer.publish(env.render(), step=step, reward=reward)

Picture and numbers of a frame are published together, see `fences`. A ring holds the last few frames, sized by the
largest so far; until the first one it is a single page for the readers' requests.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from pathlib import Path
from time import monotonic_ns, time
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.proc import started_at
from mosaic.telemetry.frames.fences import make_public, shortest_interval
from mosaic.telemetry.frames.layout import (
    AGENT_AT,
    AGENT_BYTES,
    FACTS,
    FACTS_AT,
    LABEL,
    LABEL_AT,
    PIXELS_AT,
    SLOTS,
    RingPhase,
)
from mosaic.telemetry.frames.paths import remove_ring
from mosaic.telemetry.frames.requests import MEMORY_NS, FrameRequest, last_request
from mosaic.telemetry.frames.ring_file import FrameRing, create_ring

_UINT8 = np.dtype(np.uint8)
_put_facts = FACTS.pack_into


class FrameWriter:
    """Writer of live pictures; at most one per run at a time, used by one thread at a time."""

    def __init__(self, run_folder: Path, clock_ns: Callable[[], int] = monotonic_ns) -> None:
        pid = os.getpid()
        self._run_folder, self._clock_ns = run_folder, clock_ns
        self._writer, self._id = (pid, started_at(pid) or 0), secrets.randbits(62)
        self._number = 0
        self._shape: tuple[int, ...] = ()
        self._slots: list[tuple[int, slice]] = []
        self._agents: list[str | None] = []
        self._earlier: list[FrameRing] = []
        self._ring: FrameRing | None = None
        self._memory: Any = None
        self._drawn_ns = 0
        remove_ring(run_folder)
        self._use(create_ring(run_folder, 0, self._writer, self._id))

    def wanted(self) -> bool:
        """Return whether to render now: a reader was seen within two seconds, and the requested interval has passed.

        Returns True once per interval; the caller then renders and publishes. Without readers it costs nanoseconds.
        """
        if self._ring is None:
            return False
        now = self._clock_ns()
        interval = shortest_interval(self._address, now, MEMORY_NS)
        waited = now - self._drawn_ns
        if not interval or waited < interval:
            return False
        # from the time it was due, not from now: a caller that asks every 20 ms still gets 30 pictures a second
        self._drawn_ns = self._drawn_ns + interval if waited < 2 * interval else now
        return True

    def request(self) -> FrameRequest | None:
        """Return the most recent request of a reader; None without readers."""
        return None if self._ring is None else last_request(self._address, self._clock_ns())

    def publish(
        self,
        rgb: NDArray[np.uint8],
        *,
        step: int = 0,
        episode: int = 0,
        env: int = 0,
        agent: str = "",
        reward: float = 0.0,
        ret: float = 0.0,
    ) -> None:
        """Publish a picture, height × width × 3 or grey, together with its data; readers find both or neither."""
        if rgb.shape != self._shape or rgb.dtype is not _UINT8:
            self._fit(rgb)
        memory, number = self._memory, self._number + 1
        slot = number % SLOTS
        facts_at, pixels = self._slots[slot]
        _put_facts(memory, facts_at, step, episode, env, time(), reward, ret)
        try:
            memory[pixels] = rgb  # one memcpy, at a sixth of the overhead of np.copyto
        except ValueError:  # its rows are not contiguous
            memory[pixels] = np.ascontiguousarray(rgb)
        if agent != self._agents[slot]:
            self._label(slot, agent)
        make_public(self._address, number)
        self._number = number

    def close(self, finished: bool = True) -> None:
        """Close the ring; readers keep the last pictures and learn whether the run has finished."""
        ring = self._ring
        if ring is None:
            return
        if ring.is_at_its_path():
            remove_ring(self._run_folder)
        for each in (*self._earlier, ring):
            each.enter(RingPhase.FINISHED if finished else RingPhase.GIVEN_UP)
        self._shape, self._slots, self._earlier, self._ring, self._memory = (), [], [], None, None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(finished=kind is None)

    def _fit(self, rgb: NDArray[np.uint8]) -> None:
        """Give the slots the shape of this picture, in a larger ring if necessary."""
        if self._ring is None:
            raise MosaicError("This frame writer is closed; create a new one to show more pictures.")
        if rgb.ndim not in (2, 3) or (rgb.ndim == 3 and rgb.shape[2] != 3) or not rgb.size or rgb.dtype != _UINT8:
            raise _no_picture(rgb)
        if rgb.size > self._ring.head.capacity:
            self._grow(self._ring, rgb.size)
        offsets = [self._ring.offset(slot) for slot in range(SLOTS)]
        self._slots = [(start + FACTS_AT, slice(start + PIXELS_AT, start + PIXELS_AT + rgb.size)) for start in offsets]
        self._agents = [None] * SLOTS  # each slot is labelled when it is next written: until then it may be read
        self._shape = rgb.shape

    def _grow(self, old: FrameRing, capacity: int) -> None:
        self._use(create_ring(self._run_folder, capacity, self._writer, self._id, old.areas))
        old.enter(RingPhase.REPLACED)
        old.release()
        self._earlier.append(old)  # for a reader that does not switch in time: it must still learn how the run ends

    def _use(self, ring: FrameRing) -> None:
        self._ring, self._memory, self._address = ring, ring.memory, ring.address

    def _label(self, slot: int, agent: str) -> None:
        text, offset = agent.encode()[:AGENT_BYTES], self._slots[slot][0] - FACTS_AT
        height, width, *channels = self._shape
        depth = channels[0] if channels else 1
        LABEL.pack_into(self._memory, offset + LABEL_AT, height, width, depth, height * width * depth, len(text))
        self._memory[offset + AGENT_AT : offset + AGENT_AT + len(text)] = text
        self._agents[slot] = agent


def _no_picture(rgb: NDArray[np.generic]) -> InputError:
    shape = " × ".join(map(str, rgb.shape))
    return InputError(
        f"An array of {rgb.dtype} and shape ({shape}) is not a "
        "picture. Give uint8, height × width × 3 (red, green, blue) or height × width (grey)."
    )
