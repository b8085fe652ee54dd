"""How one process writes what others read at the same time, without a lock, on any CPU.

A seqlock. Each slot has a mark: 2·n says "frame n, whole", any odd number "being written". With one writer:

    writer                                          reader
    mark of the slot := odd           (relaxed)     a := mark                        (acquire)
    FENCE                                           FENCE
    pixels and facts := frame n                     copy of pixels and facts
    FENCE                                           FENCE
    mark of the slot := 2·n           (release)     b := mark                        (acquire)
    newest := n                       (release)     accept if a = b = 2·n

Why an accepted copy is whole. Suppose the copy holds a byte of a later frame. The writer put that byte behind its
upper fence, the reader took it before its lower one, so the two fences synchronise: what the writer did before, the odd
mark, is seen by what the reader does after, the load of b. Marks only grow, so b is not 2·n. Suppose the copy misses a
byte of frame n: a = 2·n was stored behind the writer's lower fence and loaded before the reader's upper one, so all of
frame n was there to be seen. This is the C11 argument (Boehm, "Can seqlocks get along with programming language memory
models?", 2012). It takes nothing from x86, where loads and stores happen to stay in order, nor from the GIL, which
other processes do not share. The copies are calls of memcpy between two calls of ours, all opaque to every compiler, so
only the CPU could move them, and that is what fences forbid.

The fences are sequentially consistent, not just release and acquire: a large memcpy may use non-temporal stores, which
on x86 pass even earlier plain stores, and a release fence is no instruction there. A full fence orders those too.

The mark of the slot that comes next turns odd in the same call that makes a frame public: one call per frame, and a
writer killed in the middle of a picture leaves it behind an odd mark.
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

# Calls of some nanoseconds: letting go of the GIL for them would let another thread keep it for milliseconds.
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
    """One word, whole, with acquire order."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.load_atomic(builder.inttoptr(arguments[0], _WORD), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic
def _store(context: Any, address: Any, value: Any) -> Any:
    """One word, whole, with release order."""

    def generate(target: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.store_atomic(arguments[1], builder.inttoptr(arguments[0], _WORD), "release", 8)
        return target.get_dummy_value()

    return types.void(types.int64, types.int64), generate


# As compiled code calls them, which is without the context.
fence, load, store = cast(Any, _fence), cast(Any, _load), cast(Any, _store)


@njit(**_OPTIONS)
def make_public(ring: int, number: int) -> None:
    """Frame `number` lies in its slot; from here on readers find it, and the next slot may be written."""
    slots_at, slot_bytes = ring + HEAD_BYTES, load(ring + SLOT_BYTES_AT)
    fence()
    store(slots_at + number % SLOTS * slot_bytes, 2 * number)
    store(ring + NEWEST_AT, number)
    store(slots_at + (number + 1) % SLOTS * slot_bytes, 2 * number + 1)
    fence()


@njit(**_OPTIONS)
def withdraw(ring: int) -> None:
    """No frame of the ring will be accepted from here on; what lies in it may change."""
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
    """Asked before and after a copy: yes twice, and the copy is frame `number`, whole."""
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
    """Of the readers that looked within the last `memory_ns`, in nanoseconds; 0 where nobody did."""
    shortest = 0
    for reader in range(READERS):
        area = ring + AREAS_AT + reader * AREA_BYTES
        looked = load(area + LOOKED_AT)
        if looked != 0 and now_ns - looked <= memory_ns:
            interval = load(area + INTERVAL_AT)
            if interval > 0 and (shortest == 0 or interval < shortest):
                shortest = interval
    return shortest
