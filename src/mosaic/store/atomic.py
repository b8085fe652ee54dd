"""Writes that survive crashes and full disks: atomic replacement, and space reserved for a run's final state."""

from __future__ import annotations

import os
import shutil
import stat
from pathlib import Path

from mosaic.core import files
from mosaic.core.system import allocate
from mosaic.store.errors import StorageError, reason
from mosaic.store.run_folder import RunFolder

_RESERVED_BYTES = 64 << 10  # state.json and manifest.json, with file system overhead


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Replace the file in one step; after a crash at any moment either the old or the new content is there."""
    try:
        files.write_atomic(path, content, mode)
    except OSError as error:
        raise StorageError(f"'{path}' could not be written: {reason(error)}.") from error


def write_once(path: Path, content: bytes, mode: int = 0o600) -> bool:
    """Write the file atomically unless it exists; return whether this call did.

    Of several processes exactly one does.
    """
    temporary = files.temporary_path(path)
    try:
        files.write_new(temporary, content, mode)
        os.link(temporary, path)
        files.sync_folder(path.parent)
    except FileExistsError:
        return False
    except OSError as error:
        raise StorageError(f"'{path}' could not be written: {reason(error)}.") from error
    finally:
        temporary.unlink(missing_ok=True)
    return True


def private_folder(path: Path) -> Path:
    """Create a folder that only its owner can open, whatever the umask is; close one that others could open.

    Folders that are shared on purpose, such as /tmp, are left as they are.
    """
    try:
        made = not path.exists()
        path.mkdir(parents=True, exist_ok=True)
        found = path.stat()
        shared = found.st_mode & stat.S_ISVTX or found.st_uid != os.geteuid()
        if made or (not shared and found.st_mode & 0o077):
            path.chmod(0o700)
    except OSError as error:
        raise StorageError(f"The folder '{path}' could not be created: {reason(error)}.") from error
    return path


def remove_folder(path: Path) -> None:
    """Remove a folder that another process may be removing too."""
    shutil.rmtree(path, onerror=lambda _function, _path, info: _ignore_gone(info[1]))


def _ignore_gone(error: BaseException) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


class Reserve:
    """Preallocated file, freed so that the final state can be written to a full disk."""

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / ".reserve"

    def take(self) -> None:
        try:
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._no_room(error) from error
        try:
            allocate(descriptor, _RESERVED_BYTES)
        except OSError as error:
            self.give_back()
            raise self._no_room(error) from error
        finally:
            os.close(descriptor)

    def give_back(self) -> None:
        self._path.unlink(missing_ok=True)

    def _no_room(self, error: OSError) -> StorageError:
        return StorageError(f"'{self._path.parent}' has no room for a run: {reason(error)}.")
