"""How a supervisor leaves the terminal that started it, and tells it whether the start went well."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from mosaic.core.errors import MosaicError

LOG = "supervisor.log"  # in the run's folder

_PR_SET_CHILD_SUBREAPER = 36
_READY = b"ready"
_LONGEST = 4000  # bytes of a reason, which a pipe takes at once


def detach(log: Path) -> Callable[[], None]:
    """Returns in a process of its own session that is nobody's child; stdout and stderr go to the log from now on.

    The process that called stays until the other one says that it is ready (by what this returns) or dies, and exits
    with 0 or 1. Forked twice: a session leader could still be given a terminal.
    """
    answer, ready = os.pipe()
    if first := os.fork():
        os.close(ready)
        os.waitpid(first, 0)
        _leave(answer, log)
    os.close(answer)
    os.setsid()
    if os.fork():
        os._exit(0)

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

    sys.excepthook = say_why  # until it is ready: the log may be on a full disk
    _redirect(log)

    def say_ready() -> None:
        sys.excepthook = sys.__excepthook__
        with suppress(BrokenPipeError):  # the process that asked for the start was killed: the run lives by itself
            os.write(ready, _READY)
        os.close(ready)

    return say_ready


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


def adopt_orphans() -> None:
    """What our descendants leave behind becomes our child, not init's: nothing of a run escapes its supervisor."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
