"""A child process that talks in lines; every wait for it has an end, and so has the process.

The child dies with us even when we are killed: its standard input closes then, on which engines quit (Stockfish does so
in the middle of a search). The kernel's parent-death signal would serve too, but it fires already when the *thread*
that started the child ends.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO

from mosaic.core.errors import InputError
from mosaic.policies.errors import PolicyError, PolicyTimeoutError

_LONGEST_LINE = 1 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Deadline:
    """When waiting ends; never, where the limit is None."""

    limit_s: float | None
    started_s: float
    clock: Callable[[], float]

    @classmethod
    def after(cls, limit_s: float | None, clock: Callable[[], float] = monotonic) -> Deadline:
        return cls(limit_s, clock(), clock)

    def left_s(self) -> float | None:
        return None if self.limit_s is None else max(0.0, self.started_s + self.limit_s - self.clock())


class LineProcess:
    """Whoever makes one calls `end`; losing the last reference to it ends the process too."""

    def __init__(self, program: Path) -> None:
        self.program = program
        self._process = _start(program)
        self._finish = weakref.finalize(self, _end, self._process, os.getpid())
        self._stdin = _pipe(self._process.stdin)
        self._stdout = _pipe(self._process.stdout)
        self._readable = selectors.PollSelector()
        self._readable.register(self._stdout, selectors.EVENT_READ)
        self._unread = b""
        self._asked = ""
        self._last_lines: deque[str] = deque(maxlen=5)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, line: str) -> None:
        self._asked = line
        try:
            self._stdin.write(line.encode() + b"\n")
        except BrokenPipeError as error:
            raise self._death() from error

    def read_line(self, deadline: Deadline) -> str:
        while b"\n" not in self._unread:
            self._read_more(deadline)
        line, _, self._unread = self._unread.partition(b"\n")
        text = line.decode(errors="replace").strip()
        self._last_lines.append(text)
        return text

    def end(self) -> None:
        """Kills it with all that it started; twice is fine."""
        self._finish()

    def failure(self, what: str) -> PolicyError:
        """An error that says what the program did and what it wrote last."""
        return PolicyError(f"{self.program} {what} {self._last_output()}")

    def _read_more(self, deadline: Deadline) -> None:
        left_s = deadline.left_s()
        if left_s == 0 or not self._readable.select(left_s):
            self.end()
            raise PolicyTimeoutError(
                f"{self.program} did not answer '{self._asked}' within {deadline.limit_s:g} s and was ended. "
                f"{self._last_output()}"
            )
        chunk = os.read(self._stdout.fileno(), _CHUNK)
        if not chunk:
            raise self._death()
        self._unread += chunk
        if len(self._unread) > _LONGEST_LINE and b"\n" not in self._unread:
            raise self.failure("writes without ever ending its line.")

    def _death(self) -> PolicyError:
        self.end()
        self._last_lines.extend(self._unread.decode(errors="replace").splitlines()[-5:])
        return self.failure(f"ended by itself (exit status {self._process.returncode}) when told '{self._asked}'.")

    def _last_output(self) -> str:
        lines = " | ".join(line[-200:] for line in self._last_lines if line)
        return f"Its last output: {lines}" if lines else "It wrote nothing."


def _start(program: Path) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(
            [program],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            process_group=0,  # Ctrl-C is for us, not for it; and what it starts can be ended with it
        )
    except OSError as error:
        raise InputError(f"{program} cannot be run as a program: {error.strerror}.") from error


def _end(process: subprocess.Popen[bytes], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked copy of us; the process is not its own
    with suppress(ProcessLookupError, PermissionError):  # what some systems say of a group whose members are all dead
        os.killpg(process.pid, signal.SIGKILL)  # not waited for yet, so the number is still its own
    process.wait()
    _pipe(process.stdin).close()
    _pipe(process.stdout).close()


def _pipe(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None  # asked for in _start
    return stream
