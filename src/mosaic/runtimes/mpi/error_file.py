"""Files in which ranks record their failures for the process that started them.

MPI drops what a rank has just printed when that rank aborts all others; a file stays. The directory is on the machine
of the starting process: a rank on another machine does not find it, and prints its failure instead.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import time_ns
from typing import NamedTuple

PLACE = "MOSAIC_MPI_NOTES"  # environment variable of the ranks: the directory
COUNT = "MOSAIC_MPI_RANKS"  # environment variable of the ranks: how many were started


class RankFailure(NamedTuple):
    """Reason why a rank aborted the others."""

    at_ns: int
    rank: int
    reason: str  # one line
    traceback: str  # "" if the reason is sufficient
    bad_input: bool  # the ranks could not do what was asked; no rank is at fault


def note_pid(rank: int) -> bool:
    return _write(f"{rank}.pid", str(os.getpid()))


def note_failure(rank: int, reason: str, traceback: str, bad_input: bool) -> bool:
    """Return whether the note could be written."""
    return _write(f"{rank}.failure", json.dumps([time_ns(), rank, reason, traceback, bad_input]))


def first_failure(directory: Path) -> RankFailure | None:
    """Return the earliest failure: later ones may be its consequences."""
    return min((RankFailure(*json.loads(file.read_text())) for file in directory.glob("*.failure")), default=None)


def rank_of(directory: Path, pid: int) -> int | None:
    found = (int(file.stem) for file in directory.glob("*.pid") if file.read_text() == str(pid))
    return next(found, None)


def _write(name: str, text: str) -> bool:
    place = os.environ.get(PLACE)
    if place is None or not Path(place).is_dir():
        return False
    draft = Path(place, f"{name}.draft")
    draft.write_text(text)
    draft.replace(Path(place, name))  # atomic: another rank may end this one meanwhile
    return True
