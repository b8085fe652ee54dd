"""Launcher for MPI ranks, and the files in which they record their failures for it.

MPI drops what a rank has just printed when that rank aborts all others; a file stays. The directory is on the machine
of the launcher: a rank on another machine does not find it, and prints its failure instead.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from time import time_ns
from typing import NamedTuple

from mosaic.core.child_process import module_command
from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.core.files import replace_file

PLACE = "MOSAIC_MPI_NOTES"  # environment variable of the ranks: the directory
COUNT = "MOSAIC_MPI_RANKS"  # environment variable of the ranks: how many were started

OnLine = Callable[[int | None, str], None]

INSTALL = "Type: pip install 'mosaic-rl[mpi]'"
_FROM_RANK = re.compile(r"\[(\d+)\] (.*)", re.DOTALL)
_LOST_PID = re.compile(r"=\s+PID (\d+) RUNNING AT")
_HOW_LOST = re.compile(r"EXIT STRING: (.+)")


class RankError(MosaicError):
    """Failure of a rank, after which all other ranks were ended."""

    def __init__(self, rank: int | None, ranks: int, reason: str) -> None:
        who = f"Rank {rank} of {ranks}" if rank is not None else f"One of {ranks} ranks"
        rest = " The other ranks were ended." if ranks > 1 else ""
        super().__init__(f"{who} failed: {reason}.{rest}")
        self.rank = rank


def mpiexec_path() -> Path:
    """Return the mpiexec of the `mpich` wheel, and no other: ranks and mpiexec must use the same MPI."""
    try:
        files = distribution("mpich").files or []
    except PackageNotFoundError:
        raise MissingExtraError(f"MPI is not installed: there is no package 'mpich'. {INSTALL}") from None
    for file in files:
        if file.name == "mpiexec" and (path := Path(str(file.locate())).resolve()).is_file():
            return path
    raise MissingExtraError(f"The package 'mpich' is installed without its program 'mpiexec'. {INSTALL}")


def check_installed() -> None:
    if find_spec("mpi4py") is None:
        raise MissingExtraError(f"MPI is not installed: there is no package 'mpi4py'. {INSTALL}")


def run_ranks(
    module: str,
    args: Sequence[str],
    ranks: int,
    *,
    on_line: OnLine | None = None,
    environment: Mapping[str, str] | None = None,
) -> None:
    """Run a module on `ranks` ranks until all are done.

    Raises RankError when a rank fails, and InputError when the ranks report bad input. `on_line` gets every line with
    its rank (None: from MPI itself); by default the lines are printed. An exception it raises ends all ranks.
    """
    if ranks < 1:
        raise InputError(f"MPI needs at least 1 rank, not {ranks}.")
    check_installed()
    rank_command = module_command("mosaic.runtimes.mpi.rank", module, *args)
    starter = [str(mpiexec_path()), "-n", str(ranks)] if ranks > 1 else []
    tied = module_command("mosaic.core.parent_death", str(os.getpid()))  # ranks must not outlive this process
    said_by_mpi: list[str] = []
    # Ranks that MPI is still killing may write their notes meanwhile; that must not hide why they failed.
    with tempfile.TemporaryDirectory(prefix="mosaic-mpi-", ignore_cleanup_errors=True) as notes:
        process = subprocess.Popen(
            [*tied, *starter, *rank_command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {}), PLACE: notes, COUNT: str(ranks)},
            text=True,
            errors="replace",
        )
        with process:
            try:
                _listen(process, on_line or _print_line, said_by_mpi)
            except BaseException:
                process.kill()  # the ranks end with mpiexec, however it ends
                raise
        if process.returncode != 0:
            raise _verdict(Path(notes), ranks, process.returncode, "\n".join(said_by_mpi), on_line or _print_line)


def _listen(process: subprocess.Popen[str], on_line: OnLine, said_by_mpi: list[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        found = _FROM_RANK.fullmatch(line.rstrip("\n"))
        if found:
            on_line(int(found[1]), found[2])
        else:
            said_by_mpi.append(line.rstrip("\n"))
            on_line(None, said_by_mpi[-1])
    process.wait()


def _verdict(notes: Path, ranks: int, code: int, said_by_mpi: str, on_line: OnLine) -> MosaicError:
    if failure := first_failure(notes):
        if failure.bad_input:
            return InputError(failure.reason)
        for line in failure.traceback.splitlines():
            on_line(failure.rank, line)
        return RankError(failure.rank, ranks, failure.reason.rstrip("."))
    if ranks == 1:
        return RankError(0, ranks, f"signal {-code}" if code < 0 else f"exit code {code}")
    lost, how = _LOST_PID.search(said_by_mpi), _HOW_LOST.search(said_by_mpi)
    rank = rank_of(notes, int(lost[1])) if lost else None
    return RankError(rank, ranks, how[1].strip() if how else f"exit code {code}")


def _print_line(rank: int | None, text: str) -> None:
    print(text if rank is None else f"[{rank}] {text}", flush=True)


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
    replace_file(Path(place, name), lambda new: new.write_text(text))  # another rank may end this one meanwhile
    return True
