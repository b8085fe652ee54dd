"""Virtual kernel: processes, signals, descriptors, locks, a clock, and a scheduler that a seed decides.

Every process runs the product's own code in a greenlet. Each system call is a point at which the scheduler may run
another process, or at which a fault may strike. A killed process never performs another effect: its code unwinds, and
every further system call of it raises `Killed` again.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random
from typing import Any

import greenlet

from tests.simulation.disk import Disk, Node

FIRST_FD = 1_000_000
TRACE_LENGTH = 4000


class Killed(BaseException):
    """Unwinds the code of a process that is dead."""


class BrokenInvariantError(AssertionError):
    """An invariant does not hold."""


@dataclass(eq=False)
class OpenFile:
    """Open file description; several descriptors may share it."""

    kind: str  # file, folder, fifo, pipe-read, pipe-write, pidfd
    node: Node | None = None
    path: str = ""
    position: int = 0
    append: bool = False
    blocking: bool = True
    writable: bool = True
    pipe: Pipe | None = None
    process: Process | None = None
    references: int = 0


@dataclass(eq=False)
class Pipe:
    data: bytearray = field(default_factory=bytearray)
    writers: int = 0
    readers: int = 0


@dataclass(eq=False)
class Process:
    pid: int
    name: str
    start_time: float
    parent: int
    group: int
    environ: dict[str, str]
    argv: list[str]
    token: str
    run_id: str = ""
    files: dict[int, OpenFile] = field(default_factory=dict)
    handlers: dict[int, Any] = field(default_factory=dict)
    wakeup: int = -1
    subreaper: bool = False
    alive: bool = True
    frozen: bool = False  # ignores every signal but SIGKILL, as a process in a system call that hangs
    status: int | None = None  # for waitpid
    ready: bool = False  # of a supervisor: said that its start went well
    said: io.StringIO = field(default_factory=io.StringIO)
    tasks: list[Task] = field(default_factory=list)


@dataclass(eq=False)
class Task:
    """One thread of a process."""

    process: Process
    green: greenlet.greenlet
    until: Callable[[], bool] | None = None  # blocked until this holds
    deadline_s: float | None = None
    done: bool = False


class Kernel:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.disk = Disk(self.rng)
        self.now_s = 1000.0  # monotonic, since boot
        self.wall_offset_s = 1.7e9
        self.boots = 0
        self.processes: dict[int, Process] = {}
        self._next_pid, self._next_fd = 100, FIRST_FD
        self.boots = 1
        self.tasks: list[Task] = []
        self.current: Task | None = None
        self.trace: list[str] = []
        self.switch_rate = 0.05
        self.fault: Callable[[Process, str], None] = lambda process, call: None  # may raise or kill
        self.died: Callable[[Process], None] = lambda process: None
        self.calls = 0
        self._main = greenlet.getcurrent()
        self.broken: BrokenInvariantError | None = None
        self.started: list[Process] = []

    # Clock and trace

    def wall_s(self) -> float:
        return self.wall_offset_s + self.now_s

    def say(self, text: str) -> None:
        process = self.current.process.name if self.current else "-"
        self.trace.append(f"{self.now_s:10.3f} {process:<22} {text}")
        del self.trace[:-TRACE_LENGTH]

    # Processes

    def spawn(
        self, name: str, program: Callable[[], int | None], *, parent: int = 1, environ: dict[str, str] | None = None,
        argv: list[str] | None = None, files: dict[int, OpenFile] | None = None, run_id: str = "", group: int = 0,
    ) -> Process:  # fmt: skip
        pid, self._next_pid = self._next_pid, self._next_pid + 1
        start_time = round(self.now_s, 2)
        token = f"{self.rng.getrandbits(32):08x}"
        process = Process(pid, name, start_time, parent, group or pid, dict(environ or {}), argv or [], token, run_id)
        for fd, file in (files or {}).items():
            self.share(process, fd, file)
        self.processes[pid] = process
        self.started.append(process)
        self.say(f"starts {name} (pid {pid})")
        self.thread(process, lambda: self._run(process, program))
        return process

    def _run(self, process: Process, program: Callable[[], int | None]) -> None:
        try:
            code = program()
        except Killed:
            return
        except SystemExit as exited:
            code = exited.code if isinstance(exited.code, int) else 1
        except Exception as error:  # noqa: BLE001 - a traceback ends a process, not the simulation
            if isinstance(error, BrokenInvariantError):
                self.broken = self.broken or error
            self.say(f"ends with {type(error).__name__}: {error}")
            code = 1
        self.die(process, int(code or 0))

    def thread(self, process: Process, target: Callable[[], None]) -> Task:
        def work() -> None:
            with suppress(Killed):
                target()
            task.done = True

        task = Task(process, greenlet.greenlet(work, parent=self._main))
        process.tasks.append(task)
        self.tasks.append(task)
        return task

    def die(self, process: Process, status: int) -> None:
        """`status`: exit code, or minus the signal."""
        if not process.alive:
            return
        self.say(f"{process.name} (pid {process.pid}) is dead: {status}")
        process.alive, process.status = False, status
        for fd in list(process.files):
            self.close(process, fd)
        heir = self._heir(process)
        for child in self.processes.values():
            if child.parent == process.pid:
                child.parent = heir
        parent = self.processes.get(process.parent)
        if parent is None or not parent.alive:
            del self.processes[process.pid]
        else:
            self.deliver(parent, signal.SIGCHLD)
        self.died(process)
        for pid in [each.pid for each in self.processes.values() if not each.alive and each.parent == 1]:
            del self.processes[pid]

    def descendants(self, pid: int) -> list[Process]:
        """Return the living processes below a process."""
        children = [each for each in self.processes.values() if each.parent == pid]
        below = [each for child in children for each in self.descendants(child.pid)]
        return [each for each in children if each.alive] + below

    def _heir(self, process: Process) -> int:
        above = self.processes.get(process.parent)
        while above is not None:
            if above.alive and above.subreaper:
                return above.pid
            above = self.processes.get(above.parent)
        return 1

    def deliver(self, process: Process, number: int) -> None:
        """Send a signal. Handlers of the product only set flags, so they run at once."""
        if not process.alive:
            return
        if number != signal.SIGCHLD:
            self.say(f"signal {signal.Signals(number).name} to {process.name}")
        if number == signal.SIGKILL:
            self.die(process, -number)
            return
        handler = process.handlers.get(number)
        if process.frozen or handler == signal.SIG_IGN or (handler is None and number == signal.SIGCHLD):
            return
        if handler is None or handler == signal.SIG_DFL:
            self.die(process, -number)
            return
        file = process.files.get(process.wakeup)
        if file is not None and file.pipe is not None:
            file.pipe.data.append(number)
        before, self.current = self.current, process.tasks[0]
        try:
            handler(number, None)
        finally:
            self.current = before

    # Descriptors

    def new_fd(self, process: Process, file: OpenFile) -> int:
        fd, self._next_fd = self._next_fd, self._next_fd + 1
        self.share(process, fd, file)
        return fd

    def share(self, process: Process, fd: int, file: OpenFile) -> None:
        process.files[fd] = file
        file.references += 1
        if file.references == 1 and file.kind == "fifo" and file.node is not None:
            file.node.readers += 1

    def close(self, process: Process, fd: int) -> None:
        file = process.files.pop(fd)
        file.references -= 1
        if file.references:
            return
        if file.pipe is not None:
            if file.kind == "pipe-write":
                file.pipe.writers -= 1
            else:
                file.pipe.readers -= 1
        if file.node is not None:
            if file.kind == "fifo":
                file.node.readers -= 1
                if not file.node.readers:
                    file.node.data.clear()
            if file.node.lock is file:
                file.node.lock = None
            file.node.flocks.pop(file, None)

    # Scheduling

    def call(self, name: str, *, effect: bool = False) -> Process:
        """Every system call begins here: other processes may run first, faults may strike."""
        task = self.current
        assert task is not None
        process = task.process
        if not process.alive:
            raise Killed
        self.calls += 1
        self.now_s += 1e-5
        self.disk.now_ns = int(self.wall_s() * 1e9)
        if effect:
            self.fault(process, name)
        if process.alive and self.rng.random() < self.switch_rate:
            self._yield(task)
        if not process.alive:
            raise Killed
        return process

    def wait(self, until: Callable[[], bool] | None, timeout_s: float | None) -> None:
        """Block the calling thread until something holds, or for a time."""
        task = self.current
        assert task is not None
        if not task.process.alive:
            raise Killed
        if until is not None and until():
            return
        task.until = until
        task.deadline_s = None if timeout_s is None else self.now_s + max(0.0, timeout_s)
        self._yield(task)
        task.until = task.deadline_s = None
        if not task.process.alive:
            raise Killed

    def _yield(self, task: Task) -> None:
        self._main.switch()

    def step(self) -> bool:
        """Run one thread up to its next switch; False when nothing will ever run again."""
        self.tasks = [task for task in self.tasks if not task.done and task.process.alive]
        ready = [task for task in self.tasks if self._is_ready(task)]
        if not ready:
            deadlines = [task.deadline_s for task in self.tasks if task.deadline_s is not None]
            if not deadlines:
                return False
            self.now_s = max(self.now_s, min(deadlines))
            ready = [task for task in self.tasks if self._is_ready(task)]
        self.resume(ready[self.rng.randrange(len(ready))])
        if self.broken is not None:
            raise self.broken
        return True

    def _is_ready(self, task: Task) -> bool:
        if task.until is None and task.deadline_s is None:
            return True
        if task.deadline_s is not None and self.now_s >= task.deadline_s:
            return True
        return task.until is not None and task.until()

    def resume(self, task: Task) -> None:
        from mosaic.store import checkpoints

        process = task.process
        kept = (os.environ, sys.argv, sys.stderr, checkpoints._THIS_PROCESS)
        os.environ, sys.argv, sys.stderr = process.environ, process.argv, process.said  # type: ignore[assignment]
        checkpoints._THIS_PROCESS = process.token
        self.current = task
        try:
            task.green.switch()
        finally:
            self.current = None
            os.environ, sys.argv, sys.stderr, checkpoints._THIS_PROCESS = kept

    def unwind(self) -> None:
        """Let the code of every dead or living process end, so that no greenlet is left suspended."""
        for process in self.started:
            process.alive = False
            for task in process.tasks:
                if task.green:  # begun and not ended
                    self.resume(task)
