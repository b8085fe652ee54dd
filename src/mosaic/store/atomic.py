"""Atomic file writes."""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from mosaic.store.errors import StorageError, reason


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Replace the file in one step; after a crash at any moment either the old or the new content is there."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        try:
            _write_new(temporary, content.encode() if isinstance(content, str) else content, mode)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
    except OSError as error:
        raise StorageError(f"'{path}' could not be written: {reason(error)}.") from error


def write_once(path: Path, content: bytes, mode: int = 0o600) -> bool:
    """Write the file atomically unless it exists; return whether this call did.

    Of several processes exactly one does.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        _write_new(temporary, content, mode)
        os.link(temporary, path)
        sync_folder(path.parent)
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
        raise StorageError(f"The folder '{path}' could not be made: {reason(error)}.") from error
    return path


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make names created, removed or changed in this folder survive a power cut."""
    sync_file(path)


def _write_new(path: Path, data: bytes, mode: int) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    with open(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:  # a raw write may take only a part, for example the last block of a full disk
            view = view[file.write(view) :]
        os.fsync(descriptor)
