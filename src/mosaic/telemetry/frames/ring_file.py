"""File of a frame ring, created by its writer or opened by a reader, mapped into memory."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, MosaicError
from mosaic.core.files import new_file
from mosaic.core.system import POPULATE, allocate, free_pages
from mosaic.telemetry.frames.fences import get_word, put_word, withdraw
from mosaic.telemetry.frames.layout import (
    AREAS_AT,
    AREAS_END,
    HEAD_BYTES,
    MAGIC,
    PHASE_AT,
    PIXELS_AT,
    VERSION,
    RingHeader,
    RingPhase,
    head_for,
    unpack_head,
)
from mosaic.telemetry.frames.paths import make_ring_folder, ring_paths, unfinished


class FrameRing:
    """Mapped frame ring. Its addresses are valid while the object lives: drop it to free the memory."""

    def __init__(self, path: Path, head: RingHeader, file: int, memory: mmap.mmap) -> None:
        self.path, self.head, self.memory = path, head, memory
        self._identity = _identity(os.fstat(file))
        self._bytes: NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self.address: int = self._bytes.ctypes.data

    @property
    def phase(self) -> RingPhase:
        word = get_word(self.address + PHASE_AT)
        try:
            return RingPhase(word)
        except ValueError as error:
            raise FormatError(f"{self.path} is damaged: there is no phase {word}.") from error

    def enter(self, phase: RingPhase) -> None:
        put_word(self.address + PHASE_AT, phase)

    @property
    def areas(self) -> bytes:
        return self.memory[AREAS_AT:AREAS_END]

    def offset(self, number: int) -> int:
        """Return the offset of the slot for frame `number`."""
        return HEAD_BYTES + number % self.head.slots * self.head.slot_bytes

    def pixels(self, number: int, length: int) -> NDArray[np.uint8]:
        """Return a view of the frame's pixels, limited to the slot."""
        start = self.offset(number) + PIXELS_AT
        return self._bytes[start : start + min(length, self.head.capacity)]

    def release(self) -> None:
        """Free the memory of the slots, even while others have it open: they find empty slots, not frames."""
        if self.head.slots:
            withdraw(self.address)
            with suppress(OSError):  # not supported by some file systems; then the last process to close it frees it
                free_pages(self.memory, HEAD_BYTES, self.head.file_bytes - HEAD_BYTES)

    def is_at_its_path(self) -> bool:
        """Return whether the path still leads to this ring; False once it was removed or replaced."""
        try:
            return _identity(os.stat(self.path)) == self._identity
        except FileNotFoundError:
            return False


def create_ring(
    run_folder: Path, capacity: int, writer: tuple[int, int], writer_id: int, areas: bytes = b""
) -> FrameRing:
    """Create a ring in the best place that has room. It replaces an existing ring, which stays open for its readers."""
    head, problems = head_for(capacity, *writer, writer_id), []
    paths = make_ring_folder(run_folder)
    for path in paths:
        try:
            ring = _create(path, head, areas)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
            continue
        for other in paths:
            if other != path:
                other.unlink(missing_ok=True)
        return ring
    raise MosaicError(
        f"There is no room for live pictures ({head.file_bytes / 1e6:.1f} MB). Tried {'; '.join(problems)}. "
        "Free space in one of them, or train without viewers."
    )


def open_ring(run_folder: Path) -> FrameRing | None:
    """Open the run's ring; return None where there is none (yet, or any more)."""
    for path in ring_paths(run_folder):
        try:
            file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise MosaicError(
                f"The live pictures of {run_folder.name} cannot be opened: {path}: {error.strerror}. "
                "Only the user who started the run can watch it."
            ) from error
        try:
            return _open(path, file, run_folder)
        finally:
            os.close(file)
    return None


def _create(path: Path, head: RingHeader, areas: bytes) -> FrameRing:
    unfinished(path).unlink(missing_ok=True)  # of a writer that was killed
    with new_file(path, unfinished(path)) as new:
        file = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            allocate(file, head.file_bytes)  # a full disk is an error here, not a SIGBUS while a picture is written
            os.pwrite(file, head.pack(), 0)
            os.pwrite(file, areas, AREAS_AT)
            memory = mmap.mmap(file, head.file_bytes, flags=mmap.MAP_SHARED | POPULATE)
            ring = FrameRing(path, head, file, memory)
        finally:
            os.close(file)
    return ring


def _open(path: Path, file: int, run_folder: Path) -> FrameRing:
    facts = os.fstat(file)
    if facts.st_uid != os.geteuid() and facts.st_uid != run_folder.stat().st_uid:  # ours may have lost its folder
        raise MosaicError(f"{path} does not belong to the user who owns the run {run_folder.name}; it is not opened.")
    start = os.pread(file, HEAD_BYTES, 0)
    if len(start) < HEAD_BYTES or not start.startswith(MAGIC):
        raise FormatError(f"{path} is not a frame ring. Remove it; a training run creates a new one.")
    head = unpack_head(start)
    if head.version != VERSION:
        raise FormatError(
            f"{path} has version {head.version} of the frame ring, but this Mosaic reads version {VERSION}. "
            "Watch with the version of Mosaic that trains."
        )
    if head.file_bytes != facts.st_size or head != head_for(head.capacity, *head[-3:]):
        raise FormatError(
            f"{path} is damaged: its sizes are inconsistent. Remove it; a training run creates a new one."
        )
    return FrameRing(path, head, file, mmap.mmap(file, head.file_bytes))


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino
