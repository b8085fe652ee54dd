"""Worker process of a run: its start, and the pipes for commands and progress."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ, Signals

from mosaic.core.child_process import module_command
from mosaic.runs.processes import MARK
from mosaic.store.run_folder import RunFolder

_ENVIRONMENT = {
    "PYTHONUNBUFFERED": "1",  # what was printed before a crash is in the log
    "SDL_NO_SIGNAL_HANDLERS": "1",  # SDL would swallow the SIGTERM of a stop
}


class WorkerProcess:
    """Child process in its own session, connected by two pipes; its parent reaps it."""

    def __init__(self, folder: RunFolder, attempt: int) -> None:
        commands, self._commands = os.pipe()
        self.progress, progress = os.pipe()
        os.set_blocking(self._commands, False)
        os.set_blocking(self.progress, False)
        self._unread = b""
        self.silent = False  # it closed its end: it reports nothing any more
        theirs = (commands, progress)
        try:
            for end in theirs:
                os.set_inheritable(end, True)
            self.pid = _spawn(folder, attempt, *theirs)
        except OSError:
            self.close()
            raise
        finally:
            for end in theirs:
                os.close(end)

    def tell(self, **message: object) -> None:
        """Send a command; raise BlockingIOError if the worker left thousands unread, BrokenPipeError if it died."""
        os.write(self._commands, json.dumps(message).encode() + b"\n")

    def signal(self, signum: Signals) -> None:
        """Signal the worker's process group, as Ctrl-C in a terminal would."""
        # Already gone: its end will be reported. macOS refuses a group whose members have all ended.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signum)

    def listen(self) -> Iterator[bytes]:
        """Yield the lines that the worker wrote since the last call."""
        while data := read_waiting(self.progress):
            *lines, self._unread = (self._unread + data).split(b"\n")
            yield from lines
        self.silent = data == b""

    def close(self) -> None:
        os.close(self._commands)
        os.close(self.progress)


def read_waiting(fd: int) -> bytes | None:
    """Return what is in a pipe; None if it is empty for now, b"" if it was closed by all writers."""
    try:
        return os.read(fd, 65536)
    except BlockingIOError:
        return None


def read_progress(line: bytes) -> object:
    """Parse a progress line; return None if it is not JSON."""
    try:
        message: object = json.loads(line)
    except ValueError:
        return None
    return message


def _spawn(folder: RunFolder, attempt: int, commands: int, progress: int) -> int:
    environment = {
        **os.environ,
        **_ENVIRONMENT,
        MARK: folder.run_id,
        "MOSAIC_HOME": str(folder.home),  # its `run:` policies are found in the same store
        "MOSAIC_CONTROL_FD": str(commands),
        "MOSAIC_PROGRESS_FD": str(progress),
    }
    host = "mosaic.runs.exporting.process" if folder.is_export() else "mosaic.workers.host"
    argv = module_command(host, str(folder.path), str(attempt))
    append = os.O_WRONLY | os.O_APPEND | os.O_CREAT
    return os.posix_spawn(
        sys.executable,
        argv,
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(folder.log), append, 0o644),
            (os.POSIX_SPAWN_OPEN, 2, str(folder.errors), append, 0o644),
        ],
        setsid=True,
        setsigmask=(),
        setsigdef=(SIGHUP, SIGINT, SIGPIPE, SIGTERM, SIGXFSZ),
    )


def enter(recorded: str, folder: RunFolder) -> None:
    """Change to the folder the run was submitted from: `python:` modules and relative paths are looked up there.

    If it is gone, the run may still need none of them; it then starts in its own folder.
    """
    os.chdir(recorded if recorded and Path(recorded).is_dir() else folder.path)
