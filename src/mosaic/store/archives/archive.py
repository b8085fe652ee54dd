"""Export of a run to one file, and deletion of runs."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from mosaic.core.errors import InputError
from mosaic.core.files import replace_file, sync_file, sync_folder
from mosaic.store.checkpoint_folder import OWNER, is_followed, remove_linked, require_folder
from mosaic.store.errors import StorageError, reason
from mosaic.store.lock import RunLock
from mosaic.store.run_folder import RunFolder
from mosaic.store.staging import discard, sweep
from mosaic.store.store import Store
from mosaic.telemetry.frames.sources import remove_rings

NOT_PACKED = frozenset({"lock", "control", "cache", "imported.json"})  # meaningless or harmful elsewhere


def archive_run(folder: RunFolder, target: Path) -> Path:
    """Pack a run that is not alive into a .tar.gz, which appears atomically."""
    if target.exists():
        raise InputError(f"'{target}' already exists. Choose another file.")
    require_folder(folder)
    with _not_alive(folder, "archived"):
        try:
            replace_file(target, partial(_pack, folder))
            sync_folder(target.parent)
        except OSError as error:
            raise StorageError(f"'{target}' could not be written: {reason(error)}.") from error
    return target


def _pack(folder: RunFolder, target: Path) -> None:
    with tarfile.open(target, "x:gz", compresslevel=6, format=tarfile.PAX_FORMAT) as archive:
        for path in _packed(folder):
            name = f"{folder.run_id}/{path.relative_to(folder.path).as_posix()}"
            archive.add(path, name, recursive=False, filter=_anonymous)
    sync_file(target)


def delete_run(store: Store, folder: RunFolder) -> None:
    """Remove a run that is not alive, with everything it made."""
    with _not_alive(folder, "deleted"):
        remove_rings(folder.path)
        remove_linked(folder)
        discard(folder)
    store.index.remove(folder.run_id)
    sweep(store.runs)


def _not_alive(folder: RunFolder, done: str) -> RunLock:
    """Return the acquired lock of the run, so that it is not started meanwhile."""
    if not folder.exists():
        raise InputError(f"There is no run '{folder.run_id}'.")
    lock = RunLock(folder)
    if not lock.try_acquire():
        raise InputError(
            f"Run '{folder.run_id}' is still active and cannot be {done} now. "
            f"Stop it first: mosaic runs stop {folder.run_id}"
        )
    return lock


def _packed(folder: RunFolder) -> Iterator[Path]:
    for entry in sorted(folder.path.iterdir()):
        linked = entry == folder.checkpoints and is_followed(folder)
        if entry.name in NOT_PACKED or entry.name.startswith(".") or (entry.is_symlink() and not linked):
            continue
        if entry.is_dir():
            yield from (item for item in _below(entry) if not item.is_symlink() and (item.is_file() or item.is_dir()))
        elif entry.is_file():
            yield entry


def _below(path: Path) -> Iterator[Path]:
    """Yield a folder and everything in it, except what a dead process left unfinished."""
    yield path
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(folder, name) for name in (*folders, *sorted(files)) if name != OWNER)


def _anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Remove the owner's account from the archive."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member
