"""Discovery and killing of all processes that belong to a Ray session.

Ray's agents rewrite their command line and lose their environment with it, and outlive a killed driver by a minute; but
their log files in the session's directory stay open, which identifies them. A process that an actor started and left
behind has neither, but carries the session's mark in its environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from mosaic.core.proc import command_line, environment, open_files, pids, read_stat, wait_gone
from mosaic.core.system import open_process, send_signal

MARK = "MOSAIC_RAY_SESSION"  # environment variable of everything that a session starts: its directory


class ProcessIdentity(NamedTuple):
    """Living process, identified by PID and start time so that a reused PID cannot be mistaken for it."""

    pid: int
    start_time: float  # seconds since boot: unaffected by clock changes


def processes_of(directory: Path, known: Iterable[ProcessIdentity] = ()) -> set[ProcessIdentity]:
    """Return all processes that work in the directory or are known to belong to it, and their descendants.

    The calling process is never included.
    """
    parents = _parents()
    roots = {process.pid for process in known if process in parents}
    roots |= {process.pid for process in parents if process.pid != os.getpid() and _works_in(process.pid, directory)}
    children: dict[int, list[ProcessIdentity]] = {}
    for process, parent in parents.items():
        children.setdefault(parent, []).append(process)
    found = {process for process in parents if process.pid in roots}
    for root in roots:
        found.update(_below(root, children))
    return {process for process in found if process.pid != os.getpid()}


def kill(processes: Iterable[ProcessIdentity], timeout_s: float) -> None:
    """Kill processes and wait until all are gone or the time is over."""
    deadline_s = monotonic() + timeout_s
    with ExitStack() as stack:
        opened = [(handle, each.pid) for each in processes if (handle := _open(each, stack)) is not None]
        for handle, pid in opened:
            send_signal(handle, pid, signal.SIGKILL)
        for handle, _ in opened:
            wait_gone(handle, deadline_s - monotonic())


def _open(process: ProcessIdentity, stack: ExitStack) -> int | None:
    """Return a handle that, unlike a PID, can never refer to another process."""
    try:
        handle = open_process(process.pid)
    except ProcessLookupError:
        return None
    stack.callback(os.close, handle)
    looked = _look(process.pid)
    return handle if looked is not None and looked[0] == process else None


def _parents() -> dict[ProcessIdentity, int]:
    """Return every living process and its parent's PID."""
    looked = map(_look, pids())
    return dict(row for row in looked if row is not None)


def _look(pid: int) -> tuple[ProcessIdentity, int] | None:
    try:
        stat = read_stat(pid)
    except PermissionError:
        return None
    return (ProcessIdentity(pid, stat.start_time), stat.parent) if stat is not None and stat.alive else None


def _below(pid: int, children: dict[int, list[ProcessIdentity]]) -> Iterator[ProcessIdentity]:
    for child in children.get(pid, ()):
        yield child
        yield from _below(child.pid, children)


def _works_in(pid: int, directory: Path) -> bool:
    return _is_marked(pid, directory) or _is_rays_own(pid, directory)


def _is_marked(pid: int, directory: Path) -> bool:
    return f"{MARK}={directory}".encode() in environment(pid)


def _is_rays_own(pid: int, directory: Path) -> bool:
    """Return whether a process is Ray's: not its driver or a log reader, which have files open there too."""
    command = command_line(pid)
    elsewhere = command.replace(str(directory), "")
    if "ray/" not in elsewhere and "ray::" not in elsewhere:
        return False
    inside = (f"{directory}/", f"{directory.resolve()}/")  # macOS names files without its link /tmp
    return str(directory) in command or any(opened.startswith(inside) for opened in open_files(pid))
