"""Detaching of a supervisor from the terminal that started it, and the guard process that watches it from then on.

The supervisor's parent is a guard: a process that does nothing while the supervisor lives. Processes that a killed
supervisor leaves, with or without the run's mark, become the guard's children and are killed after a short grace
period.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from types import TracebackType

from mosaic.core.errors import MosaicError
from mosaic.core.system import adopt_orphans, close_files_from, wait_for_child
from mosaic.runs.processes import Row, below, end_all, marked

LOG = "supervisor.log"  # in the run's folder
HELD = 4  # exit code of a supervisor: another process holds the run
ORPHANS_END_WITHIN_S = 10.0  # on their own, after the death of their supervisor: a worker saves meanwhile
_KILL_WITHIN_S = 5.0

_READY = b"ready"
_LONGEST = 4000  # bytes of a reason, which a pipe takes at once


def detach(log: Path) -> Callable[[], None]:
    """Return in a process with its own session below a guard; stdout and stderr go to the log from now on.

    The calling process stays until the other one reports that it is ready (by calling the returned function) or dies,
    and exits with 0 or 1. Forks twice, because a session leader could still acquire a terminal.
    """
    answer, ready = os.pipe()
    if os.fork():
        os.close(ready)
        _leave(answer, log)
    os.close(answer)
    os.setsid()
    adopts = adopt_orphans()
    if supervisor := os.fork():
        _guard(supervisor, "" if adopts else log.parent.name)

    def say_why(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        match error:
            case MosaicError():
                said = str(error)
            case OSError(strerror=str() as reason):
                said = f"{error.filename}: {reason}" if error.filename else reason
            case _:
                said = f"{kind.__name__}: {error}"
        os.write(ready, said.encode(errors="backslashreplace")[:_LONGEST])
        sys.__excepthook__(kind, error, trace)

    sys.excepthook = say_why  # until ready: the log may be on a full disk
    _redirect(log)

    def say_ready() -> None:
        sys.excepthook = sys.__excepthook__
        with suppress(BrokenPipeError):  # the process that requested the start was killed: the run is independent of it
            os.write(ready, _READY)
        os.close(ready)

    return say_ready


def _guard(supervisor: int, run_id: str) -> None:
    """Wait for the supervisor to end; if it was killed, end the processes it left.

    With a run's id these are found by their mark, because orphans do not become our children on this system.
    """
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the supervisor, which then stops its run
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nothing, each)
    close_files_from(3)  # above all the run's lock, which only the supervisor may hold
    _, status = os.waitpid(supervisor, 0)
    if os.WIFSIGNALED(status):
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
        deadline_s = monotonic() + ORPHANS_END_WITHIN_S
        while _are_left(run_id) and monotonic() < deadline_s:
            pass
        while _are_left(run_id):  # however long it takes: nothing else would end the processes that are left
            end_all(lambda: _left(run_id), monotonic() + _KILL_WITHIN_S)
    os._exit(0)


def _are_left(run_id: str, wait_s: float = 0.1) -> bool:
    """Wait a while for processes of the run to end; return whether there are any."""
    children = _reap(wait_s)
    if not run_id:
        return children
    if not children:
        wait_for_child(wait_s)
    return bool(_left(run_id))


def _left(run_id: str) -> set[Row]:
    return {row for row in marked(run_id) if row.pid != os.getpid()} if run_id else below(os.getpid())


def _reap(wait_s: float) -> bool:
    """Reap children that have ended; wait a while for the others and return whether there are any.

    The kernel is asked, not /proc: while a process with many threads dies, its children do not appear there.
    """
    while True:
        try:
            if not os.waitpid(-1, os.WNOHANG)[0]:
                break
        except ChildProcessError:
            return False
    wait_for_child(wait_s)
    return True


def _leave(answer: int, log: Path) -> None:
    said = b""
    while part := os.read(answer, _LONGEST):
        said += part
    if said != _READY:
        written = log.read_text(errors="replace").strip() if log.exists() else ""
        why = said.decode(errors="replace") or written.rpartition("\n")[2] or "its supervisor died"
        print(f"The run could not be started: {why} (see {log})", file=sys.stderr, flush=True)
    os._exit(0 if said == _READY else 1)


def _redirect(log: Path) -> None:
    sys.stdout.flush()
    sys.stderr.flush()
    nothing = os.open(os.devnull, os.O_RDONLY)
    written = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for source, target in ((nothing, 0), (written, 1), (written, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(written)
