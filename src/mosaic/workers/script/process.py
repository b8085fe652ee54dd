"""Process of a user's program: its output, and stopping it together with all its descendants."""

from __future__ import annotations

import fcntl
import os
import selectors
import struct
import subprocess
import termios
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGKILL, SIGSTOP, Signals
from types import TracebackType
from typing import IO, Literal, Self

import psutil

from mosaic.core.errors import InputError
from mosaic.core.system import open_process

Stream = Literal["stdout", "stderr"]
_CHUNK = 1 << 16


class Program:
    """Running program, kept in our process group and session so that signals to us reach it too."""

    def __init__(self, command: Sequence[str], cwd: Path | None, env: Mapping[str, str]) -> None:
        pipe = subprocess.PIPE
        try:
            self._process = subprocess.Popen(
                command, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, bufsize=0
            )
        except (OSError, ValueError) as error:
            raise InputError(_cannot_start(command, cwd, error)) from error
        self._selector = selectors.DefaultSelector()
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._pipes: dict[Stream, IO[bytes]] = {"stdout": self._process.stdout, "stderr": self._process.stderr}
        for stream, file in self._pipes.items():
            self._selector.register(file, selectors.EVENT_READ, stream)
        self._ended = open_process(self._process.pid)
        self._selector.register(self._ended, selectors.EVENT_READ)

    @property
    def exit_code(self) -> int | None:
        """Exit code; None while it runs, negative: the signal that ended it."""
        return self._process.poll()

    def read(self, wait_s: float) -> list[tuple[Stream, bytes]]:
        """Return the output so far, waiting at most `wait_s` for the first of it or the end of the program."""
        ready = [key for key, _ in self._selector.select(wait_s) if key.data is not None]
        return [(key.data, chunk) for key in ready if (chunk := self._chunk(key.data, _CHUNK))]

    def rest(self) -> Iterator[tuple[Stream, bytes]]:
        """Yield what is in the pipes right now.

        They may stay open: a process the program left behind can hold them forever.
        """
        for stream in tuple(self._pipes):
            left = _waiting(self._pipes[stream])
            while left > 0 and (chunk := self._chunk(stream, left)):
                left -= len(chunk)
                yield stream, chunk

    def signal(self, signal: Signals) -> None:
        """Send a signal to the program and all its descendants, as Ctrl-C in a terminal would."""
        if self.exit_code is None:
            _signal_tree(psutil.Process(self._process.pid), signal)

    def freeze(self) -> None:
        self.signal(SIGSTOP)

    def thaw(self) -> None:
        self.signal(SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signal(SIGKILL)
        self._process.wait()
        self._selector.close()
        os.close(self._ended)
        for file in self._pipes.values():
            file.close()

    def _chunk(self, stream: Stream, most: int) -> bytes:
        file = self._pipes[stream]
        chunk = os.read(file.fileno(), most)
        if not chunk:
            self._selector.unregister(file)
            self._pipes.pop(stream).close()
        return chunk


def _signal_tree(process: psutil.Process, signal: Signals) -> None:
    with suppress(psutil.NoSuchProcess):
        if signal is SIGSTOP:
            process.send_signal(signal)  # a stopped process starts no further children
        children = process.children()  # listed first: they could not be found once their parent has ended
        if signal is not SIGSTOP:
            process.send_signal(signal)
        for child in children:
            _signal_tree(child, signal)


def _waiting(file: IO[bytes]) -> int:
    """Return the number of bytes that can be read without waiting."""
    answer = fcntl.ioctl(file.fileno(), termios.FIONREAD, b"\0" * 4)
    count: int = struct.unpack("i", answer)[0]
    return count


def _cannot_start(command: Sequence[str], cwd: Path | None, error: Exception) -> str:
    name, folder = command[0], cwd or Path.cwd()
    reason = error.strerror if isinstance(error, OSError) else str(error)
    advice = "say where it is in training.params.command, or the folder to look from in training.params.cwd"
    if isinstance(error, PermissionError):
        advice = f"make it executable (chmod +x {name}), or name what runs it: sh {name}, python {name}"
    elif not folder.is_dir():
        advice = f"there is no folder {folder}: correct training.params.cwd"
    return f"The program '{name}' cannot be started in {folder}: {reason}. To fix it, {advice}."
