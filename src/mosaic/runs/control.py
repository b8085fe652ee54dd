"""Commands to a run: JSON lines written to the FIFO that its supervisor reads."""

from __future__ import annotations

import errno
import json
import math
import os
import select
import stat
from collections.abc import Mapping
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError, MosaicError
from mosaic.store.run_folder import RunFolder

if TYPE_CHECKING:
    from mosaic.runs.lifecycle import Event, Order


class RunNotAliveError(MosaicError):
    """Error for a command to a run that has no supervisor to read it."""


def open_control(folder: RunFolder) -> int:
    """Create the FIFO and open the supervisor's end, for writing too, so that it stays open when a sender closes its
    end.
    """
    folder.control.unlink(missing_ok=True)
    os.mkfifo(folder.control, 0o600)
    return os.open(folder.control, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


def send(folder: RunFolder, command: Order, **facts: object) -> None:
    """Send a command to the run's supervisor, without confirmation that it could be carried out."""
    line = json.dumps({"command": command, **facts}, allow_nan=False).encode() + b"\n"
    if len(line) > select.PIPE_BUF:  # longer writes could interleave with another sender's
        raise InputError(
            f"The command '{command}' takes {len(line):,} bytes, and a run of this system reads at most "
            f"{select.PIPE_BUF:,} at once. Give a shorter reason."
        )
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


def read_command(line: bytes, now_s: float) -> Event:
    """Parse a command line; raise ValueError, with a message, if it is not a known command."""
    from mosaic.runs.lifecycle import CheckpointAsked, PauseAsked, ResumeAsked, StopAsked  # imports pydantic

    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError("a command is a JSON object")
    match message.get("command"):
        case "stop":
            return StopAsked(now_s, str(message.get("reason", "asked to stop")), _patience(message))
        case "pause":
            return PauseAsked()
        case "resume":
            return ResumeAsked()
        case "checkpoint":
            return CheckpointAsked()
        case other:
            raise ValueError(f"{other!r} is not a command: stop, pause, resume, checkpoint")


def _patience(message: Mapping[str, object]) -> float | None:
    from mosaic.runs.lifecycle import LONGEST_PATIENCE_S

    given = message.get("patience_s")
    if given is None:
        return None
    if not isinstance(given, int | float | str):
        raise ValueError("patience_s is not a number")
    patience_s = float(given)
    if math.isnan(patience_s):
        raise ValueError("patience_s is not a number")
    return min(max(patience_s, 0.0), LONGEST_PATIENCE_S)
