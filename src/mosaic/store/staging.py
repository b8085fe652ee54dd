"""Staging of run folders, which appear in the store and leave it atomically."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic.core.files import sync_folder
from mosaic.store.atomic import private_folder, remove_folder
from mosaic.store.errors import StorageError, reason
from mosaic.store.lock import RunLock
from mosaic.store.run_folder import RunFolder

_STAGED, _TRASH = ".staged-", ".trash-"


class TakenError(StorageError):
    """Run id that another run has."""


class Staged:
    """Folder that readers do not see yet. Its lock tells `sweep` that it is in use."""

    def __init__(self, folder: RunFolder, lock: RunLock) -> None:
        self.folder, self._lock = folder, lock

    def publish(self, run_id: str) -> RunFolder:
        """Rename the folder to its run id; may be retried with another id."""
        target = RunFolder(self.folder.path.parent / run_id)
        sync_folder(self.folder.path)
        self._lock.release()  # before the run is visible: a process that sees it may want to start it
        try:
            os.rename(self.folder.path, target.path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                self._lock.try_acquire()
                raise TakenError(f"There is already a run '{run_id}'.") from error
            raise StorageError(f"Run '{run_id}' could not be created: {reason(error)}.") from error
        sync_folder(target.path.parent)
        return target


@contextmanager
def staged(runs: Path) -> Iterator[Staged]:
    """Create a staged folder; remove it at the end unless it was published."""
    private_folder(runs.parent)
    private_folder(runs)
    folder = RunFolder(runs / f"{_STAGED}{secrets.token_hex(8)}")
    try:
        folder.path.mkdir()
    except OSError as error:
        raise StorageError(f"No run can be created in '{runs}': {reason(error)}.") from error
    with RunLock(folder) as lock:
        if not lock.try_acquire():
            raise StorageError(f"'{folder.path}' was removed while it was being created. Try again.")
        try:
            yield Staged(folder, lock)
        finally:
            if folder.path.exists():
                discard(folder)


def discard(folder: RunFolder) -> None:
    """Hide the folder in one step, then remove it: a crash in between does not leave a visible partial run."""
    trash = folder.path.with_name(f"{_TRASH}{secrets.token_hex(8)}")
    os.rename(folder.path, trash)
    sync_folder(trash.parent)
    remove_folder(trash)


def sweep(runs: Path) -> None:
    """Remove what processes left that died while creating or deleting a run."""
    for path in list(runs.iterdir()) if runs.exists() else ():
        if path.name.startswith(_TRASH):
            remove_folder(path)
        elif path.name.startswith(_STAGED):
            with RunLock(RunFolder(path)) as lock:
                if lock.try_acquire():
                    discard(RunFolder(path))
