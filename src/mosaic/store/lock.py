"""Lock on a run's folder, held by its live supervisor; the kernel releases it when the process dies.

The lock belongs to the open file (F_OFD_SETLK), not to the process, and can be tested without being taken
(F_OFD_GETLK): a reader never makes a starting supervisor believe that another process has the run.
"""

from __future__ import annotations

import fcntl
import os
import struct
from types import TracebackType

from mosaic.store.run_folder import RunFolder

_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid


class RunLock:
    """Lock on a run, not inherited by programs that the holder starts; a forked child without exec must close it."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.lock
        self._descriptor: int | None = None

    def try_acquire(self) -> bool:
        """Take the lock if it is free and the run still exists; never wait."""
        if self._descriptor is not None:
            return True
        try:
            descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            return False  # the run is gone
        if _take(descriptor) and self._is_mine(descriptor):
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False

    def _is_mine(self, descriptor: int) -> bool:
        """Check that the run was not deleted, and its name given to another, between open and lock."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return False
        return os.path.samestat(there, os.fstat(descriptor))

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> RunLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def held(folder: RunFolder) -> bool:
    """Return whether any process, including this one, holds the run's lock now."""
    try:
        descriptor = os.open(folder.lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file())
    finally:
        os.close(descriptor)
    return int(struct.unpack(_FLOCK, answer)[0]) != fcntl.F_UNLCK


def _take(descriptor: int) -> bool:
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _whole_file())
    except BlockingIOError:
        return False
    except BaseException:
        os.close(descriptor)
        raise
    return True


def _whole_file() -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
