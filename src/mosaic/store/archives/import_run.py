"""Safe import of runs from untrusted archives."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tarfile
import time
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from mosaic.core.errors import FormatError, InputError
from mosaic.store.archives.archive import NOT_PACKED
from mosaic.store.atomic import write_atomic
from mosaic.store.errors import StorageError, reason
from mosaic.store.index.index import is_run_id
from mosaic.store.labels import read_labels
from mosaic.store.run_folder import RunFolder
from mosaic.store.staging import Staged, TakenError, staged, sweep
from mosaic.store.state import LIVE, Attempt, RunState, State, read_written_state, write_state
from mosaic.store.store import Store

_CHUNK = 1 << 20
_LONGEST_READ = 1 << 22
_PLAIN = (tarfile.REGTYPE, tarfile.AREGTYPE)


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits on the content of an archive."""

    files: int = 100_000
    total_bytes: int = 50 * 2**30


def unpack(archive: Path, target: Path, limits: ArchiveLimits) -> str:
    """Unpack the one run in the archive into the target and return the id it had.

    Modes and owners are ignored. Absolute names, `..`, links, devices, duplicate names, and more than the limits allow
    are refused.
    """
    top: str | None = None
    total = 0
    try:
        with _BoundedReader(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as members:
            for count, member in enumerate(_each(members), start=1):
                total += member.size
                if count > limits.files:
                    raise FormatError(f"'{archive}' holds more than {limits.files} files.")
                if total > limits.total_bytes:
                    raise FormatError(f"'{archive}' holds more than {limits.total_bytes} bytes.")
                first, *rest = _parts(archive, member)
                top = top or first
                if first != top:
                    raise FormatError(f"'{archive}' holds more than one run: '{top}' and '{first}'.")
                _unpack_member(archive, members, member, target, rest)
            _read_to_end(archive, stream)
    except OSError as error:
        if isinstance(error, gzip.BadGzipFile):
            raise FormatError(f"'{archive}' is not a .tar.gz file: {error}.") from error
        if isinstance(error, FileNotFoundError) and error.filename == str(archive):
            raise InputError(f"There is no file '{archive}'.") from error
        raise StorageError(f"'{archive}' could not be unpacked: {reason(error)}.") from error
    except (tarfile.TarError, EOFError, zlib.error, ValueError, RecursionError) as error:
        raise FormatError(f"'{archive}' is damaged or not a .tar.gz file: {error}.") from error
    if top is None:
        raise FormatError(f"'{archive}' is empty.")
    return top


def _read_to_end(archive: Path, stream: gzip.GzipFile) -> None:
    """Read the padding and the checksum after the last file: else an archive truncated there would pass as whole."""
    read = 0
    while block := stream.read(_CHUNK):
        read += len(block)
        if read > _LONGEST_READ:
            raise FormatError(f"'{archive}' holds {read:,} or more bytes after its last file.")


class _BoundedReader(gzip.GzipFile):
    """Reader that refuses absurd sizes: headers may claim to be gigabytes long, and tarfile would believe them."""

    def read(self, size: int | None = -1) -> bytes:
        if size is None or not 0 <= size <= _LONGEST_READ:
            raise tarfile.ReadError(f"a header claims {size} bytes")
        return super().read(size)


def _each(members: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    while (member := members.next()) is not None:
        yield member
        members.members = []  # type: ignore[attr-defined]  # tarfile would keep every header, however many there are


def _parts(archive: Path, member: tarfile.TarInfo) -> tuple[str, ...]:
    name = PurePosixPath(member.name)
    if name.is_absolute() or ".." in name.parts or not name.parts or set("\\\0") & set(member.name):
        raise FormatError(f"'{archive}' is refused: the name '{member.name}' leads out of the run's folder.")
    if len(name.parts) > 1 and (name.parts[1] in NOT_PACKED or name.parts[1].startswith(".")):
        raise FormatError(f"'{archive}' is refused: '{member.name}' does not belong in an archive.")
    return name.parts


def _unpack_member(
    archive: Path, members: tarfile.TarFile, member: tarfile.TarInfo, target: Path, rest: list[str]
) -> None:
    path = target.joinpath(*rest)
    if member.type == tarfile.DIRTYPE:
        path.mkdir(parents=True, exist_ok=True)
        return
    if member.type not in _PLAIN or member.issparse() or not rest:
        raise FormatError(f"'{archive}' is refused: '{member.name}' is a link, a device or another special file.")
    path.parent.mkdir(parents=True, exist_ok=True)
    source = members.extractfile(member)
    assert source is not None, "plain files have content"
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except FileExistsError as error:
        raise FormatError(f"'{archive}' is refused: '{member.name}' is duplicated in it.") from error
    with open(descriptor, "wb") as file:
        left = member.size
        while left:
            block = source.read(min(left, _CHUNK))
            if not block:
                raise FormatError(f"'{archive}' ends in the middle of '{member.name}'.")
            file.write(block)
            left -= len(block)
        file.flush()
        os.fsync(file.fileno())


def import_run(
    store: Store, archive: Path, *, limits: ArchiveLimits | None = None, now: float | None = None
) -> RunFolder:
    """Import the run of an archive under its id, or with `-2`, `-3` … appended where that is taken.

    It is marked as imported: code that it or its checkpoints name is not loaded without the user's trust.
    """
    now = time.time() if now is None else now
    store.index.prepare()
    sweep(store.runs)
    with staged(store.runs) as made:
        run_id = unpack(archive, made.folder.path, limits or ArchiveLimits())
        if not is_run_id(run_id):
            raise FormatError(f"'{archive}' is refused: '{run_id}' is not a valid run id.")
        _check(archive, made.folder)
        state = read_written_state(made.folder)
        with archive.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        origin = {"archive": archive.name, "sha256": digest, "run_id": run_id, "imported_at": now}
        write_atomic(made.folder.imported, json.dumps(origin, indent=1) + "\n")
        return _published(made, run_id, _harmless(state, now))


def _check(archive: Path, folder: RunFolder) -> None:
    try:
        _keep_inside(folder)
        read_written_state(folder)
        read_labels(folder)
    except (InputError, OSError) as error:
        problem = str(error).replace(f"{folder.path}/", "")  # the staging path no longer exists when this is read
        raise FormatError(f"'{archive}' holds no run: {problem}") from error


def _keep_inside(folder: RunFolder) -> None:
    """Forget the folder outside the store that the run had for its checkpoints, which are in the archive."""
    config = folder.read_config()
    if config.checkpoint.folder is not None:
        checkpoint = config.checkpoint.model_copy(update={"folder": None})
        folder.write_config(config.model_copy(update={"checkpoint": checkpoint}))


def _published(made: Staged, run_id: str, state: RunState) -> RunFolder:
    number, name = 1, run_id
    while True:
        write_state(made.folder, state.model_copy(update={"run_id": name}))
        try:
            return made.publish(name)
        except TakenError:
            number += 1
            name = f"{run_id[:90]}-{number}"


def _harmless(state: RunState, now: float) -> RunState:
    """Make the state of a foreign run safe to keep.

    Not queued, or the queue would start it; no process ids, or a recovery would end unrelated processes with these ids;
    no working folder, or modules would be loaded from a place that the archive chose; no seal.
    """
    ended = {State.QUEUED: State.STOPPED, **dict.fromkeys(LIVE, State.LOST)}
    attempts = tuple(_without_processes(attempt) for attempt in state.attempts)
    return state.model_copy(
        update={"state": ended.get(state.state, state.state), "attempts": attempts, "updated": now,
                "working_folder": "", "seal": ""}
    )  # fmt: skip


def _without_processes(attempt: Attempt) -> Attempt:
    return attempt.model_copy(update={"supervisor": None, "worker": None})
