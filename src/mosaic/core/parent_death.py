"""Launcher that ties a program's life to its parent process, even if the parent is killed.

`python -m mosaic.core.parent_death PID PROGRAM ARGUMENT…` becomes PROGRAM, which is killed when process PID, its
parent, is gone. On Linux the kernel does it (more exactly: when the thread that started it is gone), elsewhere a
process that looks five times a second. The file imports nothing of Mosaic: it is also run as a script of its own.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time

_PR_SET_PDEATHSIG = 1
_PORTABLE = sys.platform != "linux" or os.environ.get("MOSAIC_PORTABLE") == "1"
_LOOK_EVERY_S = 0.2


def main(parent: str, program: str, *arguments: str) -> None:
    if _PORTABLE:
        _start_watch(int(parent))
    else:
        _ask_kernel()
    if os.getppid() != int(parent):
        sys.exit("The process that asked for this is gone already.")
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        sys.exit(f"{program} cannot be run as a program: {error.strerror}.")


def _ask_kernel() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _start_watch(parent: int) -> None:
    """Leave a process that kills this one when the parent is gone; forked twice, it is not a child of the program."""
    program = os.getpid()
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in (0, 1, 2):
        os.dup2(nothing, each)
    os.closerange(3, 1024)
    while _exists(program):
        if not _exists(parent):
            os.kill(program, signal.SIGKILL)
            break
        time.sleep(_LOOK_EVERY_S)
    os._exit(0)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    main(*sys.argv[1:])
