"""Checkpoint files of a run: writing, finding and pruning."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias, overload

from mosaic.core.errors import InputError
from mosaic.core.files import replace_folder, sync_file, sync_folder
from mosaic.store.atomic import write_atomic
from mosaic.store.checkpoint_folder import claim_folder, require_folder
from mosaic.store.checkpoint_record import (
    MANIFEST,
    Checkpoint,
    CheckpointContents,
    CheckpointManifest,
    CheckpointScore,
    PolicyEntry,
    Provenance,
    damage,
    file_entry,
    files_in,
    manifest_bytes,
    read_checkpoint,
)
from mosaic.store.errors import DamagedError, StorageError, reason
from mosaic.store.run_folder import RunFolder

__all__ = [
    "Checkpoint",
    "CheckpointContents",
    "CheckpointManifest",
    "CheckpointScore",
    "PolicyEntry",
    "Provenance",
    "Retention",
    "find_checkpoint",
    "held_checkpoint",
    "holding",
    "list_checkpoints",
    "prune",
    "write_checkpoint",
]

Which: TypeAlias = Literal["latest", "best"] | int

# A checkpoint that is being replaced is called .old-STEP until the new one is in its place.
_NAME = re.compile(r"(?P<old>\.old-)?(?P<steps>0|[1-9][0-9]*)")
_THIS_PROCESS = secrets.token_hex(4)


def best_first(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    """Return the measured ones by the criterion of the newest, best first; ties go to the newest."""
    newest = newest_first(checkpoints)
    alike = [c for c in newest if c.manifest.best_by == newest[0].manifest.best_by]
    rated = [(c.merit, c.rank, c) for c in alike if c.merit is not None]
    return [c for _, _, c in sorted(rated, key=lambda item: item[:2], reverse=True)]


def newest_first(checkpoints: Iterable[Checkpoint]) -> list[Checkpoint]:
    return sorted(checkpoints, key=lambda c: c.rank, reverse=True)


@dataclass(frozen=True, slots=True)
class Retention:
    """Number of checkpoints of a run to keep."""

    keep_last: int = 3
    keep_best: int = 1

    def dispensable(self, checkpoints: Iterable[Checkpoint], written: Checkpoint) -> list[Checkpoint]:
        """Return all but the newest and the best.

        The one just written, the only one known to be whole, is always kept.
        """
        everything = list(checkpoints)
        kept = {written.path}
        kept.update(c.path for c in newest_first(everything)[: max(self.keep_last, 1)])
        kept.update(c.path for c in best_first(everything)[: self.keep_best])
        return [c for c in everything if c.path not in kept]


_DEFAULT_RETENTION = Retention()


def write_checkpoint(
    folder: RunFolder,
    contents: CheckpointContents,
    save: Callable[[Path], None],
    retention: Retention = _DEFAULT_RETENTION,
) -> Path:
    """Write `checkpoints/<env_steps>` atomically from a folder that `save` fills, and remove what is not to be kept.

    One process writes at a time.
    """
    temporary = folder.checkpoints / f".tmp-{_THIS_PROCESS}-{secrets.token_hex(4)}"
    try:
        claim_folder(folder)
        folder.checkpoints.mkdir(exist_ok=True)  # not its parents: a deleted run stays deleted
        sync_folder(folder.path)  # or a power cut would lose the first checkpoint with its folder
        _tidy(folder.checkpoints)
        temporary.mkdir()
        save(temporary)
        _complete(folder, temporary, contents)
        path = _publish(temporary, folder.checkpoints / str(contents.env_steps))
    except BaseException as error:
        if temporary.exists():
            shutil.rmtree(temporary)
        if isinstance(error, OSError | StorageError | DamagedError):
            raise StorageError(_not_written(folder, contents.env_steps, error)) from error
        raise
    prune(folder, retention, read_checkpoint(path))
    return path


@contextmanager
def holding(path: Path) -> Iterator[int | None]:
    """Keep the checkpoint at this path from being pruned; yield the descriptor of its lock, or None if it is gone.

    Any process may hold it, also one that inherits the descriptor; the kernel releases what a killed process held. The
    run that writes checkpoints removes it when it next prunes them.
    """
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)  # waits for a removal that has begun
        yield lock if os.fstat(lock).st_ino == _inode(path) else None
    finally:
        os.close(lock)


@contextmanager
def held_checkpoint(folder: RunFolder, which: Which = "latest") -> Iterator[Checkpoint]:
    """Find a checkpoint, see `find_checkpoint`, and keep it from being pruned while it is read."""
    while True:
        found = find_checkpoint(folder, which)
        with holding(found.path) as lock:
            if lock is not None:
                yield found
                return


def prune(folder: RunFolder, retention: Retention, written: Checkpoint | None = None) -> None:
    """Remove what is not to be kept and not being held; `written`, by default the newest, stays."""
    there = list_checkpoints(folder)
    for old in retention.dispensable(there, written or newest_first(there)[0]) if there else ():
        _remove_unless_held(old.path)


def _remove_unless_held(path: Path) -> None:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:  # by another thread of the run
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.fstat(lock).st_ino == _inode(path):
            _remove(path)
    except BlockingIOError:
        return
    finally:
        os.close(lock)


def list_checkpoints(folder: RunFolder) -> list[Checkpoint]:
    """Return all with a readable manifest, oldest first; their files are not compared with their hashes."""
    return newest_first(_survey(folder)[0])[::-1]


@overload
def find_checkpoint(folder: RunFolder, which: Which = ..., *, missing_ok: Literal[False] = ...) -> Checkpoint: ...
@overload
def find_checkpoint(folder: RunFolder, which: Which = ..., *, missing_ok: bool) -> Checkpoint | None: ...
def find_checkpoint(folder: RunFolder, which: Which = "latest", *, missing_ok: bool = False) -> Checkpoint | None:
    """Return the requested checkpoint, with every byte compared with its hash.

    Instead of a damaged latest (or best) one the next in order is returned, and `skipped` says so. A damaged one that
    was requested by its steps is refused. `missing_ok`: return None where the run has not saved anything yet.
    """
    while True:
        readable, damaged = _survey(folder)
        if not readable and not damaged:
            if missing_ok:
                return None
            raise InputError(f"Run '{folder.run_id}' has no checkpoint yet.")
        skipped: dict[int, str] = {}
        for checkpoint in _in_order(folder, which, readable, damaged):
            problem = damage(checkpoint)
            if problem is None:
                skipped |= {s: text for s, text in damaged.items() if which == "best" or s > checkpoint.env_steps}
                return replace(checkpoint, verified=True, skipped=_messages(folder, skipped, checkpoint, which))
            if _changed(checkpoint):
                break  # it was removed or replaced meanwhile: look again
            skipped[checkpoint.env_steps] = problem
        else:
            raise DamagedError(_refusal(folder, which, damaged | skipped, readable))


def _complete(folder: RunFolder, temporary: Path, contents: CheckpointContents) -> None:
    """Add the manifest and make everything survive a power cut."""
    names = files_in(temporary)
    if MANIFEST in names:
        raise StorageError(f"save() wrote a file called {MANIFEST}, a name reserved for the checkpoint")
    for policy, entry in contents.policies.items():
        missing = sorted(set(entry.files) - names)
        if missing:
            raise StorageError(f"policy '{policy}' names the file '{missing[0]}', which save() did not write")
    files = {}
    for name in sorted(names):
        sync_file(temporary / name)
        files[name] = file_entry(temporary / name)
    write_atomic(temporary / MANIFEST, manifest_bytes(folder, contents.manifest(folder.run_id, files)))
    for path, folders, _ in os.walk(temporary, topdown=False):
        for name in folders:
            sync_folder(Path(path, name))
    sync_folder(temporary)


def _publish(temporary: Path, path: Path) -> Path:
    old = path.with_name(f".old-{path.name}")
    replace_folder(temporary, path, old)
    if old.exists():
        _remove(old)
    return path


def _tidy(checkpoints: Path) -> None:
    """Remove what a process left that died while writing."""
    for entry in list(checkpoints.iterdir()):
        kind, _, rest = entry.name.removeprefix(".").partition("-")
        match kind:
            case "old" if not (checkpoints / rest).exists():
                entry.rename(checkpoints / rest)
            case "old" | "trash":
                shutil.rmtree(entry)
            case "tmp" if not rest.startswith(_THIS_PROCESS):
                shutil.rmtree(entry)


def _remove(path: Path) -> None:
    """Hide it first, so that a crash does not leave a visible partial checkpoint."""
    trash = path.with_name(f".trash-{secrets.token_hex(4)}")
    path.rename(trash)
    shutil.rmtree(trash)


def _changed(checkpoint: Checkpoint) -> bool:
    """Return whether the writer has replaced or removed it meanwhile."""
    before = _inode(checkpoint.path)
    try:
        return read_checkpoint(checkpoint.path).digest != checkpoint.digest
    except DamagedError:
        return before is None or _inode(checkpoint.path) != before


def _survey(folder: RunFolder) -> tuple[list[Checkpoint], dict[int, str]]:
    """Return the readable ones, and the problems of the others by their env steps."""
    require_folder(folder)
    while (found := _read_all(_paths(folder.checkpoints))) is None:
        pass  # the writer removed or replaced one meanwhile
    return found


def _read_all(paths: Mapping[int, Path]) -> tuple[list[Checkpoint], dict[int, str]] | None:
    """Return what `_survey` does, or None if a checkpoint was removed or replaced while it was read."""
    readable: list[Checkpoint] = []
    damaged: dict[int, str] = {}
    for steps, path in paths.items():
        before = _inode(path)
        try:
            readable.append(_read_in_place(path, steps))
        except DamagedError as error:
            if before is None or _inode(path) != before:
                return None
            damaged[steps] = str(error)
    return readable, damaged


def _inode(path: Path) -> int | None:
    try:
        return path.stat().st_ino
    except FileNotFoundError:
        return None


def _read_in_place(path: Path, steps: int) -> Checkpoint:
    checkpoint = read_checkpoint(path)
    if checkpoint.env_steps != steps:
        raise DamagedError(f"its {MANIFEST} belongs to the one at {checkpoint.env_steps}")
    return checkpoint


def _paths(checkpoints: Path) -> dict[int, Path]:
    found: dict[int, Path] = {}
    for entry in checkpoints.iterdir() if checkpoints.exists() else ():
        name = _NAME.fullmatch(entry.name)
        if name and (not name["old"] or int(name["steps"]) not in found):
            found[int(name["steps"])] = entry
    return found


def _in_order(
    folder: RunFolder, which: Which, readable: list[Checkpoint], damaged: Mapping[int, str]
) -> list[Checkpoint]:
    if which == "latest":
        return newest_first(readable)
    if which == "best":
        rated = best_first(readable)
        if readable and not rated:
            measure = newest_first(readable)[0].manifest.best_by
            raise InputError(
                f"No checkpoint of run '{folder.run_id}' has a {measure}, so none is the best. Use @latest."
            )
        return rated
    exact = [c for c in readable if c.env_steps == which]
    if not exact and which not in damaged:
        steps = sorted(c.env_steps for c in readable)
        near = min(steps, key=lambda step: abs(step - which), default=None)
        hint = f" Did you mean @{near}?" if near is not None else ""
        raise InputError(
            f"Run '{folder.run_id}' has no checkpoint at {which} env steps.{hint} "
            f"There are: {', '.join(map(str, steps)) or 'none that is intact'}."
        )
    return exact


def _messages(folder: RunFolder, skipped: Mapping[int, str], chosen: Checkpoint, which: Which) -> tuple[str, ...]:
    if isinstance(which, int):
        return ()
    return tuple(
        f"The checkpoint of run '{folder.run_id}' at {steps} env steps is damaged: {problem}. "
        f"The one at {chosen.env_steps} is used instead."
        for steps, problem in sorted(skipped.items(), reverse=True)
    )


def _refusal(folder: RunFolder, which: Which, skipped: Mapping[int, str], readable: list[Checkpoint]) -> str:
    if isinstance(which, int):
        before = max((c.env_steps for c in readable if c.env_steps < which), default=None)
        hint = f" The one before it: @{before}." if before is not None else ""
        return f"The checkpoint of run '{folder.run_id}' at {which} env steps is damaged: {skipped[which]}.{hint}"
    each = "; ".join(f"at {steps}: {problem}" for steps, problem in sorted(skipped.items(), reverse=True))
    return f"Every checkpoint of run '{folder.run_id}' is damaged ({each})."


def _not_written(folder: RunFolder, env_steps: int, error: OSError | StorageError | DamagedError) -> str:
    why = reason(error) if isinstance(error, OSError) else str(error).removesuffix(".")
    before = list_checkpoints(folder)
    rest = f"The one at {before[-1].env_steps} is intact." if before else "There is none before it."
    return f"The checkpoint at {env_steps} env steps could not be written: {why}. {rest}"
