"""Where a run's frame ring is kept, and how it is removed.

In shared memory, under a name made from the run's folder, so that whoever knows the run can find and remove it; in the
folder itself where there is no shared memory or no room in it. A file appears whole, by renaming.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_NAME = "frames.ring"


def lane_paths(run_folder: Path) -> tuple[Path, ...]:
    """Where the ring may be, best place first."""
    folder = run_folder.resolve()
    inside = folder / _NAME
    if not SHARED_MEMORY.is_dir():
        return (inside,)
    digest = hashlib.blake2b(os.fsencode(folder), digest_size=12).hexdigest()
    return SHARED_MEMORY / f"mosaic-{digest}.ring", inside


def unfinished(path: Path) -> Path:
    """The name of a file that is not whole yet."""
    return path.with_name(path.name + ".new")


def remove_lane(run_folder: Path) -> None:
    """What a dead writer left. Readers that have it open keep it; a writer that lives would write for nobody."""
    for path in lane_paths(run_folder):
        for leftover in (path, unfinished(path)):
            with suppress(FileNotFoundError, NotADirectoryError):
                leftover.unlink()
