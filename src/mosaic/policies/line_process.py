"""Process that reads and writes lines of text."""

from __future__ import annotations

import os
import selectors
import subprocess
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO

from mosaic.core.child_process import kill_group
from mosaic.core.errors import InputError
from mosaic.policies.controller import PolicyError, PolicyTimeoutError

_LONGEST_LINE = 1 << 20
_LONGEST_SHOWN = 120
_CHUNK = 1 << 16
_SEND_LIMIT_S = 60.0
_EXIT_LIMIT_S = 0.5  # a process that has closed its output is about to exit, or never


@dataclass(frozen=True, slots=True)
class Deadline:
    """End of a wait; never, where the limit is None."""

    limit_s: float | None
    started_s: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, limit_s: float | None, clock: Callable[[], float] = monotonic) -> Deadline:
        return cls(limit_s, clock(), clock)

    def left_s(self) -> float | None:
        return None if self.limit_s is None else max(0.0, self.started_s + self.limit_s - self.clock())


class LineProcess:
    """Process that talks in lines; call `end` when done (losing the last reference also ends it).

    Every wait for it has a limit. It ends with this process even if that is killed: its standard input is closed then,
    on which engines quit (Stockfish even in the middle of a search). The kernel's parent-death signal would be sent as
    soon as the *thread* that started the process ends.

    What it writes to stderr counts as its output; with `errors_apart` it only appears in messages about failures.
    """

    def __init__(
        self, command: Sequence[str | Path], folder: Path | None = None, *, errors_apart: bool = False
    ) -> None:
        self.program = Path(command[0])
        self._process = _start(command, folder, errors_apart)
        self._finish = weakref.finalize(self, _end, self._process, os.getpid())
        self._stdin = _pipe(self._process.stdin)
        self._stdout = _pipe(self._process.stdout)
        os.set_blocking(self._stdin.fileno(), False)
        self._ready = selectors.PollSelector()
        self._ready.register(self._stdout, selectors.EVENT_READ)
        if self._process.stderr is not None:
            os.set_blocking(self._process.stderr.fileno(), False)
            self._ready.register(self._process.stderr, selectors.EVENT_READ)
        self._unread = b""
        self._asked = ""
        self._last_lines: deque[str] = deque(maxlen=5)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: str, deadline: Deadline | None = None) -> None:
        """Write a line, within 60 s if no deadline is given; what the process writes meanwhile is kept."""
        self._asked = line if len(line) <= _LONGEST_SHOWN else f"{line[:_LONGEST_SHOWN]}…"
        deadline = Deadline.after(_SEND_LIMIT_S) if deadline is None else deadline
        rest = line.encode() + b"\n"
        try:
            while rest:
                try:
                    rest = rest[os.write(self._stdin.fileno(), rest) :]
                except BlockingIOError:  # the pipe is full
                    self._wait_to_write(deadline)
        except BrokenPipeError as error:
            raise self._death() from error

    def read_line(self, deadline: Deadline) -> str:
        while b"\n" not in self._unread:
            self._wait(deadline)
        line, _, self._unread = self._unread.partition(b"\n")
        text = line.decode(errors="replace").strip()
        self._last_lines.append(text)
        return text

    def end(self) -> None:
        """Kill the process and all that it started; may be called twice."""
        self._finish()

    def failure(self, what: str) -> PolicyError:
        """Return an error that says what the program did and its last output."""
        return PolicyError(f"{self.program} {what} {self._last_output()}")

    def _wait_to_write(self, deadline: Deadline) -> None:
        self._ready.register(self._stdin, selectors.EVENT_WRITE)
        try:
            self._wait(deadline)
        finally:
            self._ready.unregister(self._stdin)

    def _wait(self, deadline: Deadline) -> None:
        """Wait until the process has written or can be written to, and keep what it has written."""
        left_s = deadline.left_s()
        ready = [] if left_s == 0 else self._ready.select(left_s)
        if not ready:
            self.end()
            raise PolicyTimeoutError(
                f"{self.program} did not respond to '{self._asked}' within {deadline.limit_s:g} s and was terminated. "
                f"{self._last_output()}"
            )
        for key, _ in ready:
            if key.fileobj is self._stdout:
                self._read_output()
            elif key.fileobj is not self._stdin:
                self._read_errors()

    def _read_output(self) -> None:
        chunk = os.read(self._stdout.fileno(), _CHUNK)
        if not chunk:
            raise self._death()
        self._unread += chunk
        if len(self._unread) > _LONGEST_LINE and b"\n" not in self._unread:
            raise self.failure("wrote a line without an end.")

    def _read_errors(self) -> None:
        """Keep the last lines of stderr; stop watching it at its end."""
        errors = _pipe(self._process.stderr)
        while chunk := errors.read(_CHUNK):
            self._last_lines.extend(chunk.decode(errors="replace").splitlines()[-5:])
        if chunk is not None:  # None: nothing more at the moment
            self._ready.unregister(errors)

    def _death(self) -> PolicyError:
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_EXIT_LIMIT_S)  # for its own status instead of the signal's
        if any(key.fileobj is self._process.stderr for key in self._ready.get_map().values()):
            self._read_errors()
        self.end()
        self._last_lines.extend(self._unread.decode(errors="replace").splitlines()[-5:])
        return self.failure(f"exited (status {self._process.returncode}) on the command '{self._asked}'.")

    def _last_output(self) -> str:
        lines = " | ".join(line[-200:] for line in self._last_lines if line)
        return f"Its last output: {lines}" if lines else "It wrote nothing."


def _start(command: Sequence[str | Path], folder: Path | None, errors_apart: bool) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if errors_apart else subprocess.STDOUT,
            bufsize=0,
            process_group=0,  # Ctrl-C goes to this process only; and the engine's children can be killed with it
        )
    except OSError as error:
        raise InputError(f"{command[0]} cannot be run as a program: {error.strerror}.") from error


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() == owner:  # a forked child does not own the process
        kill_group(process)


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # requested in _start
    return stream
