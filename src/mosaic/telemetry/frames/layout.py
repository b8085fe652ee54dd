"""Layout of a frame ring's file.

    0      head: magic, version, sizes, writer, phase            one page
    128    number of the newest frame, alone in its cache line
    256    requests of readers: `READERS` areas of 64 bytes
    4096   `SLOTS` slots: mark, facts, label, agent; then the pixels

All numbers have eight bytes, in native byte order: the file never leaves the machine that made it.
"""

# compiled code uses this file

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple, TypedDict

MAGIC: Final = b"MOSAICFL"
VERSION: Final = 1
SLOTS: Final = 4  # one is being written, one is being read; the others let a slow reader finish
READERS: Final = 16

SLOT_BYTES_AT: Final = 32  # where `RingHeader.pack` puts it
PHASE_AT: Final = 96
NEWEST_AT: Final = 128
AREAS_AT: Final = 256
AREA_BYTES: Final = 64
AREAS_END: Final = AREAS_AT + READERS * AREA_BYTES
HEAD_BYTES: Final = 4096

OWNER_AT: Final = 0  # in a reader's area
LOOKED_AT: Final = 8
ASKED_AT: Final = 16
INTERVAL_AT: Final = 24
ENV_AT: Final = 32
GRID_AT: Final = 40

FACTS_AT: Final = 8  # after the slot's mark
FACTS: Final = Struct("=qqqddd")
LABEL_AT: Final = FACTS_AT + FACTS.size
LABEL: Final = Struct("=QQQQQ")
AGENT_AT: Final = LABEL_AT + LABEL.size
AGENT_BYTES: Final = 256
PIXELS_AT: Final = 384

_HEAD = Struct("=8s8Q")


class FrameFacts(TypedDict, total=False):
    """Facts about a frame, shown beside it."""

    step: int
    episode: int
    env: int  # its index
    agent: str  # a name, or `red=1.5, blue=-2`
    reward: float
    ret: float  # return so far


class RingPhase(IntEnum):
    WRITING = 0
    FINISHED = 1
    GIVEN_UP = 2  # closed without a proper end
    REPLACED = 3  # the same writer continues in another file


class RingHeader(NamedTuple):
    """Constants of a file: frames that do not fit get a new file."""

    magic: bytes
    version: int
    file_bytes: int
    slots: int
    slot_bytes: int
    capacity: int  # bytes of the largest picture
    writer_pid: int
    writer_started: int  # ticks since boot: a later process with the same pid is another one
    writer_id: int  # random per writer; unchanged when its file is replaced

    def pack(self) -> bytes:
        return _HEAD.pack(*self)


class FrameValues(NamedTuple):
    """Values that change with each frame."""

    step: int
    episode: int
    env: int
    wall_time: float
    reward: float
    ret: float


class FrameShape(NamedTuple):
    """Values that seldom change from frame to frame."""

    height: int
    width: int
    channels: int
    length: int  # bytes of the picture
    agent_length: int  # bytes of the agent's name


def head_for(capacity: int, writer_pid: int, writer_started: int, writer_id: int) -> RingHeader:
    """Return the head of a ring for pictures up to `capacity` bytes; with 0 it has no slots, only request areas."""
    slots = SLOTS if capacity else 0
    slot_bytes = PIXELS_AT + -(-capacity // 64) * 64
    size = HEAD_BYTES + slots * slot_bytes
    return RingHeader(MAGIC, VERSION, size, slots, slot_bytes, capacity, writer_pid, writer_started, writer_id)


def unpack_head(data: bytes) -> RingHeader:
    return RingHeader(*_HEAD.unpack(data[: _HEAD.size]))


assert _HEAD.size <= PHASE_AT
assert AREAS_END <= HEAD_BYTES
assert AGENT_AT + AGENT_BYTES <= PIXELS_AT
