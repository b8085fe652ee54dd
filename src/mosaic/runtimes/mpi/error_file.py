"""What a rank leaves in writing for whoever started it.

MPI drops what a rank has just printed when that rank ends all others; a file stays. The directory is on the starter's
machine: a rank on another one finds it missing, and prints what it has to say.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from time import time_ns
from typing import NamedTuple

PLACE = "MOSAIC_MPI_NOTES"  # in the ranks' environment: the directory
COUNT = "MOSAIC_MPI_RANKS"  # in the ranks' environment: how many were started


class Failure(NamedTuple):
    """Why a rank ended the others."""

    at_ns: int
    rank: int
    reason: str  # one line
    traceback: str  # "" where the reason says it all
    bad_input: bool  # the ranks could not do what was asked; no rank is to blame


def note_pid(rank: int) -> bool:
    return _write(f"{rank}.pid", str(os.getpid()))


def note_failure(rank: int, reason: str, traceback: str, bad_input: bool) -> bool:
    """Whether the note could be left."""
    return _write(f"{rank}.failure", json.dumps([time_ns(), rank, reason, traceback, bad_input]))


def first_failure(directory: Path) -> Failure | None:
    """The cause: later failures may be its consequences."""
    return min((Failure(*json.loads(file.read_text())) for file in directory.glob("*.failure")), default=None)


def rank_of(directory: Path, pid: int) -> int | None:
    found = (int(file.stem) for file in directory.glob("*.pid") if file.read_text() == str(pid))
    return next(found, None)


def _write(name: str, text: str) -> bool:
    place = os.environ.get(PLACE)
    if place is None or not Path(place).is_dir():
        return False
    draft = Path(place, f"{name}.draft")
    draft.write_text(text)
    draft.replace(Path(place, name))  # whole or not at all: another rank may end this one meanwhile
    return True
