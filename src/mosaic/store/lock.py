"""Lock on a run's folder, held by its live supervisor; the kernel releases it when the process dies.

The lock belongs to the open file, not to the process, and can be tested without being taken: a reader never makes a
starting supervisor believe that another process has the run.
"""

from __future__ import annotations

import os
from types import TracebackType

from mosaic.core.system import is_locked, take_lock
from mosaic.store.errors import StorageError, reason
from mosaic.store.run_folder import RunFolder


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
        except OSError as error:
            raise StorageError(f"'{self._path}' could not be opened: {reason(error)}.") from error
        try:
            if take_lock(descriptor) and self._is_mine(descriptor):
                self._descriptor = descriptor
                return True
        finally:
            if self._descriptor is None:
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
        return is_locked(descriptor)
    finally:
        os.close(descriptor)
