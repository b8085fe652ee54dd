"""Atomic creation and replacement of files and folders."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote

from mosaic.core.errors import InputError


def check_folder(path: Path) -> None:
    """Raise InputError if there is no folder for a file that is to be written."""
    if not path.parent.is_dir():
        raise InputError(
            f"There is no folder '{path.parent}' for '{path.name}'. Type: mkdir -p {quote(str(path.parent))}"
        )


@contextmanager
def new_file(path: Path, temporary: Path | None = None) -> Iterator[Path]:
    """Yield the path of a temporary file in the same folder, to be created in the block.

    It is renamed to `path` if everything in the block succeeded, and removed if not. Its name is random unless given.
    """
    temporary = temporary or temporary_path(path)
    try:
        yield temporary
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def replace_file(path: Path, write: Callable[[Path], object], temporary: Path | None = None) -> None:
    """Replace a file by one that `write` creates at the temporary path, or leave it unchanged on failure."""
    with new_file(path, temporary) as new:
        write(new)


def write_atomic(path: Path, content: bytes | str, mode: int = 0o644) -> None:
    """Replace the file in one step; after a crash at any moment either the old or the new content is there."""
    data = content.encode() if isinstance(content, str) else content
    replace_file(path, lambda temporary: write_new(temporary, data, mode))
    sync_folder(path.parent)


def temporary_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")


def write_new(path: Path, data: bytes, mode: int) -> None:
    """Write a file that must not exist yet, down to the disk."""
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
    with open(descriptor, "wb", buffering=0) as file:
        view = memoryview(data)
        while view:  # a raw write may take only a part, for example the last block of a full disk
            view = view[file.write(view) :]
        os.fsync(descriptor)


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(path: Path) -> None:
    """Make names created, removed or changed in this folder survive a power cut."""
    sync_file(path)


def file_stamp(path: Path | str) -> str:
    """Return a stamp that changes when the file is replaced by a new one; empty without a file."""
    try:
        status = os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return ""
    return f"{status.st_mtime_ns}.{status.st_ino}.{status.st_size}"


def replace_folder(new: Path, target: Path, backup: Path) -> None:
    """Rename the folder `new` to `target`; a folder that was there is renamed to `backup`, for the caller to remove.

    If the second renaming fails, the first is undone. After a crash between them only the backup is left.
    """
    existed = target.exists()
    if existed:
        os.rename(target, backup)
    try:
        os.rename(new, target)
    except BaseException:
        if existed:
            os.rename(backup, target)
        raise
    sync_folder(target.parent)


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder that gets its name if everything in the block succeeded, and is removed if not."""
    folder = temporary_path(target)
    try:
        folder.mkdir(parents=True)
        yield folder
        folder.rename(target)
        sync_folder(target.parent)
    finally:
        if folder.exists():
            shutil.rmtree(folder)
