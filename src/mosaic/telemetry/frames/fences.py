"""Seqlock for frames: one process writes while others read, without a lock, on any CPU.

Each slot has a mark: 2·n means "frame n, whole", any odd number "being written". With one writer:

    writer                                          reader
    mark of the slot := odd           (relaxed)     a := mark                        (acquire)
    FENCE                                           FENCE
    pixels and facts := frame n                     copy of pixels and facts
    FENCE                                           FENCE
    mark of the slot := 2·n           (release)     b := mark                        (acquire)
    newest := n                       (release)     accept if a = b = 2·n

An accepted copy is whole. Suppose the copy holds a byte of a later frame. The writer stored that byte after its upper
fence, the reader loaded it before its lower one, so the two fences synchronise: what the writer did before, the odd
mark, is seen by what the reader does after, the load of b. Marks only grow, so b is not 2·n. Suppose the copy misses a
byte of frame n: a = 2·n was stored after the writer's lower fence and loaded before the reader's upper one, so all of
frame n was visible. This is the C11 argument (Boehm, "Can seqlocks get along with programming language memory models?",
2012). It relies neither on x86, where loads and stores happen to stay in order, nor on the GIL, which other processes
do not share. The copies are calls of memcpy between two calls of our own, all opaque to every compiler, so only the CPU
could reorder them, and that is what fences forbid.

The fences are sequentially consistent, not just release and acquire: a large memcpy may use non-temporal stores, which
on x86 pass even earlier plain stores, and a release fence emits no instruction there. A full fence orders those too.

The mark of the next slot turns odd in the same call that publishes a frame: one call per frame, and a writer killed in
the middle of a picture leaves it with an odd mark.
"""

from __future__ import annotations

from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mosaic.core.numba_cache import njit
from mosaic.telemetry.frames.layout import (
    AREA_BYTES,
    AREAS_AT,
    HEAD_BYTES,
    INTERVAL_AT,
    LOOKED_AT,
    NEWEST_AT,
    READERS,
    SLOT_BYTES_AT,
    SLOTS,
)

# Calls take nanoseconds: releasing the GIL for them would let another thread keep it for milliseconds.
_OPTIONS = {"cache": True, "nogil": False, "error_model": "numpy"}
_WORD = ir.IntType(64).as_pointer()


@intrinsic
def _fence(context: Any) -> Any:
    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.fence("seq_cst")
        return target.get_dummy_value()

    return types.void(), generate


@intrinsic
def _load(context: Any, address: Any) -> Any:
    """Load one word atomically with acquire order."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], _WORD), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _store(context: Any, address: Any, value: Any) -> Any:
    """Store one word atomically with release order."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], _WORD), "release", 8)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64), generate


# As called by compiled code, without the context.
fence, load, store = cast(Any, _fence), cast(Any, _load), cast(Any, _store)


@njit(**_OPTIONS)
def make_public(ring: int, number: int) -> None:
    """Publish frame `number`, which is in its slot, and open the next slot for writing."""
    slots_at, slot_bytes = ring + HEAD_BYTES, load(ring + SLOT_BYTES_AT)
    fence()
    store(slots_at + number % SLOTS * slot_bytes, 2 * number)
    store(ring + NEWEST_AT, number)
    store(slots_at + (number + 1) % SLOTS * slot_bytes, 2 * number + 1)
    fence()


@njit(**_OPTIONS)
def withdraw(ring: int) -> None:
    """Invalidate all frames of the ring, so that its content may change."""
    slot_bytes = load(ring + SLOT_BYTES_AT)
    for slot in range(SLOTS):
        store(ring + HEAD_BYTES + slot * slot_bytes, -1)
    fence()


@njit(**_OPTIONS)
def newest(ring: int) -> int:
    number: int = load(ring + NEWEST_AT)
    return number


@njit(**_OPTIONS)
def holds(slot: int, number: int) -> bool:
    """Return whether the slot holds frame `number`; a copy is whole if this is true before and after it."""
    fence()
    mark: int = load(slot)
    fence()
    return mark == 2 * number


@njit(**_OPTIONS)
def get_word(address: int) -> int:
    value: int = load(address)
    return value


@njit(**_OPTIONS)
def put_word(address: int, value: int) -> None:
    store(address, value)


@njit(**_OPTIONS)
def shortest_interval(ring: int, now_ns: int, memory_ns: int) -> int:
    """Return the shortest interval of readers seen within the last `memory_ns`, in nanoseconds; 0 without readers."""
    shortest = 0
    for reader in range(READERS):
        area = ring + AREAS_AT + reader * AREA_BYTES
        looked = load(area + LOOKED_AT)
        if looked != 0 and now_ns - looked <= memory_ns:
            interval = load(area + INTERVAL_AT)
            if interval > 0 and (shortest == 0 or interval < shortest):
                shortest = interval
    return shortest
