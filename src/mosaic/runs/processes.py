"""Processes of a run: finding them and ending all of them."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from time import monotonic
from typing import Protocol, TypeVar

from mosaic.core.machine import is_current
from mosaic.core.proc import environment, pids, read_stat, wait_gone
from mosaic.core.system import open_process, send_signal
from mosaic.store.run_folder import MARK as MARK


class Identified(Protocol):
    """Process identity that cannot be confused with a later process of the same PID."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> float: ...  # seconds since boot: unaffected by clock changes
    @property
    def boot(self) -> str: ...  # which boot; empty: this one, or unknown in a record of an older version


P = TypeVar("P", bound=Identified)


@dataclass(frozen=True, slots=True)
class Row:
    """A live process. Zombies hold nothing but their PID and count as gone."""

    pid: int
    start_time: float
    parent: int = field(compare=False)
    memory_mb: float = field(compare=False)  # resident
    cpu_s: float = field(default=0.0, compare=False)
    boot: str = field(default="", compare=False)


def look(pid: int) -> Row | None:
    """Return the live process with this PID, if any."""
    row, alive = _look(pid) or (None, False)
    return row if alive else None


def _look(pid: int) -> tuple[Row, bool] | None:
    """Return a process and whether it is alive; None if its PID is free."""
    stat = read_stat(pid)
    return None if stat is None else (Row(pid, stat.start_time, stat.parent, stat.memory_mb, stat.cpu_s), stat.alive)


def is_alive(process: Identified) -> bool:
    row = look(process.pid)
    return row is not None and row.start_time == process.start_time and is_current(process.boot)


def list_processes() -> dict[int, Row]:
    return {row.pid: row for row, alive in _list() if alive}


def _list() -> Iterator[tuple[Row, bool]]:
    looked = map(_look, pids())
    return (found for found in looked if found is not None)


def below(pid: int) -> set[Row]:
    """Return all live descendants of a process, excluding itself.

    Zombies are traversed: a process whose first thread ended keeps its children until the last thread has ended.
    """
    children: dict[int, list[tuple[Row, bool]]] = {}
    for row, alive in _list():
        children.setdefault(row.parent, []).append((row, alive))
    return set(_descend(children, pid))


def _descend(children: dict[int, list[tuple[Row, bool]]], pid: int) -> Iterator[Row]:
    for row, alive in children.get(pid, ()):
        if alive:
            yield row
        yield from _descend(children, row.pid)


def marked(run_id: str) -> set[Row]:
    """Return all processes started with the run's mark, also those that left its process group, session and parents."""
    mark = f"{MARK}={run_id}".encode()
    return {row for row in list_processes().values() if mark in environment(row.pid)}


def end_all(find: Callable[[], Iterable[P]], deadline_s: float) -> list[P]:
    """Kill everything that `find` returns, until it returns nothing: a killed process may just have started another.

    Never kills the calling process. Returns what does not die before the deadline (monotonic), normally nothing. What
    is first found after the deadline, on a machine so busy that the dying took all the time, is still killed.
    """
    while found := [process for process in find() if process.pid != os.getpid()]:
        late = monotonic() >= deadline_s
        _kill(found, deadline_s)
        if late:
            return [process for process in found if is_alive(process)]
    return []


def _kill(processes: Iterable[Identified], deadline_s: float) -> None:
    """Kill processes and wait until all are gone, or the deadline; leave their exit codes to their parents."""
    with ExitStack() as stack:
        handles = []
        for process in processes:
            handle = _open(process, stack)
            if handle is not None:
                send_signal(handle, process.pid, signal.SIGKILL)
                handles.append(handle)
        for handle in handles:
            wait_gone(handle, deadline_s - monotonic())


def _open(process: Identified, stack: ExitStack) -> int | None:
    """Open a handle on the process, if it is still the same one."""
    try:
        handle = open_process(process.pid)
    except ProcessLookupError:
        return None
    stack.callback(os.close, handle)
    return handle if is_alive(process) else None
