"""Process facts from /proc, or from psutil where there is none.

/proc is read directly: a supervisor does this while its run starts, and a start should cost nothing.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mosaic.core.system import PORTABLE, open_process

if TYPE_CHECKING:
    import psutil

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
GONE = (FileNotFoundError, ProcessLookupError)


class Stat(NamedTuple):
    """State of a process."""

    alive: bool  # False for a zombie, which holds nothing but its PID
    parent: int
    started: int  # ticks since boot or 1970, unaffected by clock changes
    memory_mb: float  # resident
    cpu_s: float  # of all its threads

    @property
    def start_time(self) -> float:
        """Start of the process in seconds."""
        return self.started / _TICKS_PER_S


def read_stat(pid: int) -> Stat | None:
    """Return the facts of a process; None if its PID is free."""
    if PORTABLE:
        return _ask_stat(pid)
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except GONE:
        return None
    fields = text.rpartition(")")[2].split()  # the name in parentheses may contain anything, including parentheses
    cpu_s = (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return Stat(fields[0] not in "ZX", int(fields[1]), int(fields[19]), int(fields[21]) * _PAGE_MB, cpu_s)


def _ask_stat(pid: int) -> Stat | None:
    import psutil

    try:
        process = psutil.Process(pid)
        started, parent, alive = _created(process), process.ppid(), process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return None
    memory_mb = cpu_s = 0.0
    with suppress(psutil.Error):  # a zombie has none, and those of other users are not told
        memory_mb, cpu_s = process.memory_info().rss / 2**20, sum(process.cpu_times()[:2])
    return Stat(alive, parent, round(started * _TICKS_PER_S), memory_mb, cpu_s)


def _created(process: psutil.Process) -> float:
    """Return the start time as the kernel has noted it; the public one moves with the clock in psutil 7.1 and later."""
    try:
        return float(process._proc.create_time(monotonic=True))
    except (AttributeError, TypeError):  # a version that does not adjust it
        return float(process.create_time())


def started_at(pid: int) -> int | None:
    """Return the start time of a process in ticks; None where it is not alive (a zombie is not)."""
    stat = read_stat(pid)
    return stat.started if stat is not None and stat.alive else None


def pids() -> Iterator[int]:
    if PORTABLE:
        import psutil

        return iter(psutil.pids())
    return (int(name) for name in os.listdir(PROC) if name.isdecimal())


def environment(pid: int) -> list[bytes]:
    """Return the initial environment of a process as NAME=value; empty if it is gone or belongs to another user."""
    if PORTABLE:
        import psutil

        try:
            return [f"{name}={value}".encode() for name, value in psutil.Process(pid).environ().items()]
        except (psutil.Error, OSError):
            return []
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (*GONE, PermissionError):
        return []


def command_line(pid: int) -> str:
    """Return the words of a process's command; empty if it is gone or belongs to another user."""
    if PORTABLE:
        import psutil

        try:
            return " ".join(psutil.Process(pid).cmdline())
        except (psutil.Error, OSError):
            return ""
    try:
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ")
    except (*GONE, PermissionError):
        return ""


def open_files(pid: int) -> Iterator[str]:
    """Yield the paths of files that a process has open; none if it is gone or belongs to another user."""
    if PORTABLE:
        import psutil

        with suppress(psutil.Error, OSError):
            yield from (file.path for file in psutil.Process(pid).open_files())
        return
    folder = PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)
    except (*GONE, PermissionError):
        return
    for name in names:
        with suppress(*GONE, PermissionError):
            yield os.readlink(folder / name)


def wait_gone(handle: int, timeout_s: float | None) -> bool:
    """Return whether the process behind a handle of `open_process` ended within the time; None: wait for its end."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)  # of a pipe whose other end is closed, POLLHUP is reported too
    return bool(poll.poll(None if timeout_s is None else max(0.0, timeout_s) * 1000))


def wait_unreaped(child: int) -> None:
    """Wait until a child has ended, and leave it a zombie, so that its PID is not reused."""
    try:
        handle = open_process(child)
    except ProcessLookupError:
        return
    try:
        wait_gone(handle, None)
    finally:
        os.close(handle)
