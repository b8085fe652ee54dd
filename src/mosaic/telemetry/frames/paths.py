"""Location of a run's frame ring: a private folder in shared memory, or the run's own folder.

The folder in shared memory has a random name, which is stored in the run's folder, and is closed to other users, who
therefore cannot guess the name and claim it first. Where there is no shared memory or no room in it, the ring is in the
run's folder. Files appear atomically, by renaming.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from contextlib import suppress
from pathlib import Path
from stat import S_ISDIR

from mosaic.core.proc import started_at
from mosaic.core.system import pid_namespace

_REQUESTED = "pictures_requested"


def request_pictures(folder: Path) -> None:
    """Ask the session of this folder to open its pictures; idempotent. A missing folder means that it has ended."""
    with suppress(FileNotFoundError, NotADirectoryError):
        (folder / _REQUESTED).touch()


def pictures_requested(folder: Path) -> bool:
    """Return whether a viewer has asked for pictures.

    Opening a ring loads numba, a third of a second, which a short evaluation without viewers does not have to spend.
    """
    return (folder / _REQUESTED).exists()


def forget_request(folder: Path) -> None:
    """Withdraw a request; viewers that still look repeat it."""
    (folder / _REQUESTED).unlink(missing_ok=True)


SHARED_MEMORY = Path("/dev/shm")
_NAME = "frames.ring"
_TOKEN = ".frames"  # in the run's folder: the name of the folder in shared memory
_OWNER = "owner"  # in shared memory: the writer's process
_FOLDER = re.compile(r"mosaic-[0-9a-f]{32}")


def ring_paths(run_folder: Path) -> tuple[Path, ...]:
    """Return where the ring may be, best place first."""
    folder = run_folder.resolve()
    shared = _shared_folder(folder)
    return (folder / _NAME,) if shared is None else (shared / _NAME, folder / _NAME)


def make_ring_folder(run_folder: Path) -> tuple[Path, ...]:
    """Return where a writer may put its ring, best place first; remove what dead writers of this user left."""
    folder = run_folder.resolve()
    if SHARED_MEMORY.is_dir() and _shared_folder(folder) is None:
        remove_dead_rings()
        with suppress(OSError):  # no room, or not writable: the run's own folder remains
            _make_shared(folder)
    return ring_paths(folder)


def unfinished(path: Path) -> Path:
    """Return the name of a file that is not complete yet."""
    return path.with_name(path.name + ".new")


def remove_ring(run_folder: Path) -> None:
    """Remove what a dead writer left.

    Readers that have it open keep it; a writer that is still alive would lose its readers.
    """
    folder = run_folder.resolve()
    shared = _shared_folder(folder)
    if shared is not None:
        shutil.rmtree(shared, ignore_errors=True)  # another process may remove it at the same time
    inside = folder / _NAME
    for leftover in (inside, unfinished(inside), folder / _TOKEN):
        with suppress(FileNotFoundError, NotADirectoryError):
            leftover.unlink()


def remove_dead_rings() -> None:
    """Remove the rings of this user's killed writers, even where the run's folder, the only reference, is gone."""
    for folder in SHARED_MEMORY.glob("mosaic-*"):
        if _FOLDER.fullmatch(folder.name) and _is_private(folder) and _is_dead(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _make_shared(folder: Path) -> None:
    name = f"mosaic-{secrets.token_hex(16)}"
    shared = SHARED_MEMORY / name
    shared.mkdir(mode=0o700)
    pid = os.getpid()
    (shared / _OWNER).write_text(f"{pid} {started_at(pid)} {pid_namespace()}")
    token = folder / _TOKEN
    token.unlink(missing_ok=True)
    with os.fdopen(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "w") as file:
        file.write(name)


def _shared_folder(folder: Path) -> Path | None:
    """Return the folder named in the run's folder, if it is one of ours: an imported run may name anything."""
    try:
        name = (folder / _TOKEN).read_text()
    except (OSError, UnicodeDecodeError):
        return None
    shared = SHARED_MEMORY / name
    return shared if _FOLDER.fullmatch(name) and _is_private(shared) else None


def _is_private(path: Path) -> bool:
    try:
        facts = path.lstat()
    except FileNotFoundError:
        return False
    return S_ISDIR(facts.st_mode) and facts.st_uid == os.geteuid() and not facts.st_mode & 0o077


def _is_dead(folder: Path) -> bool:
    """Return whether the owner has died; a process id of another namespace proves nothing."""
    try:
        pid, started, namespace = (folder / _OWNER).read_text().split(" ")  # macOS has no namespaces: "" there
    except (OSError, ValueError):
        return False  # being created right now
    return namespace == pid_namespace() and str(started_at(int(pid))) != started
