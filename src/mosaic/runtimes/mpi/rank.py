"""Entry point of an MPI rank: prefixes output with the rank, and ends all ranks when this one fails.

`python -m mosaic.runtimes.mpi.rank MODULE ARGUMENT…` runs MODULE as a script. If a rank merely died of an exception,
the others would wait for it forever.
"""

from __future__ import annotations

import io
import os
import runpy
import sys
import traceback
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError
from mosaic.runtimes.mpi.launch import note_failure, note_pid
from mosaic.runtimes.mpi.messaging import check_count, world

if TYPE_CHECKING:
    from mpi4py import MPI


class RankLines(io.TextIOBase):
    """Stream that prefixes lines with the rank and writes whole ones only: ranks must not interleave."""

    def __init__(self, fd: int, rank: int) -> None:
        self._fd, self._rank, self._begun = fd, rank, ""

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._fd

    def write(self, text: str) -> int:
        *lines, self._begun = (self._begun + text).split("\n")
        if lines:
            self._send("".join(f"[{self._rank}] {line}\n" for line in lines))
        return len(text)

    def finish(self) -> None:
        """Write an unfinished last line."""
        if self._begun:
            self.write("\n")

    def _send(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self._fd, data) :]


def main(module: str, *arguments: str) -> None:
    comm = _join()
    lines = RankLines(sys.__stdout__.fileno() if sys.__stdout__ else 1, comm.Get_rank())
    sys.stdout = sys.stderr = lines
    note_pid(comm.Get_rank())
    sys.argv = [module, *arguments]
    try:
        check_count(comm)
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except BaseException as error:
        if isinstance(error, SystemExit) and error.code in (None, 0):
            return
        _end_all(comm, error)
        raise
    finally:
        lines.finish()


def _join() -> MPI.Intracomm:
    try:
        return world()
    except InputError as error:  # without MPI there is no rank yet that could end the others
        _leave_word(0, error)
        sys.exit(1)


def _end_all(comm: MPI.Intracomm, error: BaseException) -> None:
    _leave_word(comm.Get_rank(), error)
    comm.Abort(1)
    os._exit(1)  # MPICH requests our end and may return before it comes: nothing must be reported twice


def _leave_word(rank: int, error: BaseException) -> None:
    bad_input = isinstance(error, InputError)
    story = "" if bad_input or isinstance(error, SystemExit) else traceback.format_exc()
    reason = str(error) if bad_input else _in_one_line(error)
    if not note_failure(rank, reason, story, bad_input):
        print(story or reason)


def _in_one_line(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"exit code {error.code}" if isinstance(error.code, int) else str(error.code)
    return " ".join("".join(traceback.format_exception_only(error)).split())


if __name__ == "__main__":
    main(*sys.argv[1:])
