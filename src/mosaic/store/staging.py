"""How a run folder comes into the store and leaves it: whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic.store.atomic import private_folder, sync_folder
from mosaic.store.errors import StorageError, reason
from mosaic.store.lock import RunLock
from mosaic.store.run_folder import RunFolder

_STAGED, _TRASH = ".staged-", ".trash-"


class TakenError(StorageError):
    """Another run has that id."""


class Staged:
    """A folder that no reader sees yet. Its lock tells `sweep` that somebody is at it."""

    def __init__(self, folder: RunFolder, lock: RunLock) -> None:
        self.folder, self._lock = folder, lock

    def publish(self, run_id: str) -> RunFolder:
        """Gives it its name; may be tried again with another name."""
        target = RunFolder(self.folder.path.parent / run_id)
        sync_folder(self.folder.path)
        self._lock.release()  # before the run is seen: whoever sees it may want to start it
        try:
            os.rename(self.folder.path, target.path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                self._lock.try_acquire()
                raise TakenError(f"There is already a run '{run_id}'.") from error
            raise StorageError(f"Run '{run_id}' could not be made: {reason(error)}.") from error
        sync_folder(target.path.parent)
        return target


@contextmanager
def staged(runs: Path) -> Iterator[Staged]:
    """What was not published by the end is removed."""
    private_folder(runs.parent)
    private_folder(runs)
    folder = RunFolder(runs / f"{_STAGED}{secrets.token_hex(8)}")
    try:
        folder.path.mkdir()
    except OSError as error:
        raise StorageError(f"No run can be created in '{runs}': {reason(error)}.") from error
    with RunLock(folder) as lock:
        if not lock.try_acquire():
            raise StorageError(f"'{folder.path}' was swept away while it was made. Try again.")
        try:
            yield Staged(folder, lock)
        finally:
            if folder.path.exists():
                discard(folder)


def discard(folder: RunFolder) -> None:
    """Out of sight in one step, then removed: a crash in between leaves no half run to be seen."""
    trash = folder.path.with_name(f"{_TRASH}{secrets.token_hex(8)}")
    os.rename(folder.path, trash)
    sync_folder(trash.parent)
    _remove(trash)


def sweep(runs: Path) -> None:
    """Removes what processes that died while they made or deleted a run have left."""
    for path in list(runs.iterdir()) if runs.exists() else ():
        if path.name.startswith(_TRASH):
            _remove(path)
        elif path.name.startswith(_STAGED):
            with RunLock(RunFolder(path)) as lock:
                if lock.try_acquire():
                    discard(RunFolder(path))


def _remove(path: Path) -> None:
    """Two processes may be at the same one."""
    shutil.rmtree(path, onerror=lambda _function, _path, info: _ignore_gone(info[1]))


def _ignore_gone(error: BaseException) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error
