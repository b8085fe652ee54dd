"""Launcher that ties a program's life to its parent process, even if the parent is killed.

`python -m mosaic.core.parent_death PID PROGRAM ARGUMENT…` becomes PROGRAM, which the kernel kills when process PID,
its parent, is gone (more exactly: when the thread that started it is).
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: str, program: str, *arguments: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL)) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    if os.getppid() != int(parent):
        sys.exit("The process that asked for this is gone already.")
    try:
        os.execv(program, [program, *arguments])
    except OSError as error:
        sys.exit(f"{program} cannot be run as a program: {error.strerror}.")


if __name__ == "__main__":
    main(*sys.argv[1:])
