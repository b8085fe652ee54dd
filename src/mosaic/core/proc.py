"""Process facts from /proc.

Read directly instead of with psutil: a supervisor does this while its run starts, and a start should cost nothing.
"""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PROC = Path("/proc")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20
GONE = (FileNotFoundError, ProcessLookupError)


class Stat(NamedTuple):
    """Fields of /proc/PID/stat."""

    alive: bool  # False for a zombie, which holds nothing but its PID
    parent: int
    started: int  # ticks since boot: unaffected by clock changes
    memory_mb: float  # resident

    @property
    def start_time(self) -> float:
        """Start of the process in seconds since boot."""
        return self.started / _TICKS_PER_S


def read_stat(pid: int) -> Stat | None:
    """Return the facts of a process; None if its PID is free."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except GONE:
        return None
    fields = text.rpartition(")")[2].split()  # the name in parentheses may contain anything, including parentheses
    return Stat(fields[0] not in "ZX", int(fields[1]), int(fields[19]), int(fields[21]) * _PAGE_MB)


def started_at(pid: int) -> int | None:
    """Return the start time of a process in ticks since boot; None where it is not alive (a zombie is not)."""
    stat = read_stat(pid)
    return stat.started if stat is not None and stat.alive else None


def pids() -> Iterator[int]:
    return (int(name) for name in os.listdir(PROC) if name.isdecimal())


def environment(pid: int) -> list[bytes]:
    """Return the initial environment of a process as NAME=value; empty if it is gone or belongs to another user."""
    try:
        return (PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except (*GONE, PermissionError):
        return []


def wait_gone(handle: int, timeout_s: float) -> bool:
    """Return whether the process behind a pidfd ended within the time."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout_s) * 1000))
