"""How commands reach a run: one JSON line through the FIFO that its supervisor reads."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import MosaicError
from mosaic.store.run_folder import RunFolder

if TYPE_CHECKING:
    from mosaic.runs.lifecycle import Order


class RunNotAliveError(MosaicError):
    """Nobody reads the run's commands: it has no supervisor."""


def open_control(folder: RunFolder) -> int:
    """The supervisor's end. It is open for writing too, so that it does not end when a sender leaves."""
    folder.control.unlink(missing_ok=True)
    os.mkfifo(folder.control, 0o600)
    return os.open(folder.control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def send(folder: RunFolder, command: Order, **facts: Any) -> None:
    """Hands a command to the run's supervisor. Says nothing about whether it could be carried out."""
    line = json.dumps({"command": command, **facts}, allow_nan=False).encode() + b"\n"
    if len(line) > select.PIPE_BUF:  # longer ones could be torn apart by another sender's
        raise ValueError(f"A command may take {select.PIPE_BUF} bytes, this one takes {len(line)}.")
    try:
        fifo = os.open(folder.control, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENOENT):
            raise _not_alive(folder, command) from error
        raise
    try:
        if not stat.S_ISFIFO(os.fstat(fifo).st_mode):
            raise _not_alive(folder, command)
        os.write(fifo, line)
    except BrokenPipeError as error:
        raise _not_alive(folder, command) from error
    finally:
        os.close(fifo)


def _not_alive(folder: RunFolder, command: Order) -> RunNotAliveError:
    return RunNotAliveError(
        f"The run {folder.run_id} cannot {command}: it is not alive. Type: mosaic runs show {folder.run_id}"
    )
