"""Supervision of a run: the event loop that carries out what the life cycle decides, until the run has ended."""

from __future__ import annotations

import os
import selectors
import signal
import traceback
from collections.abc import Callable
from time import monotonic
from typing import assert_never

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.files import sync_file
from mosaic.core.system import boot_id
from mosaic.runs.control import read_command
from mosaic.runs.daemonize import LOG
from mosaic.runs.lifecycle import (
    Arm,
    Command,
    EndEverything,
    Event,
    PatienceMeasured,
    RecordEnd,
    Refuse,
    Signal,
    SpawnFailed,
    SpawnWorker,
    StartAsked,
    StopAsked,
    SupervisorDied,
    Tell,
    TimerFired,
    WorkerExited,
    WorkerFailed,
    WorkerPaused,
    WorkerResumed,
    WorkerReturned,
    WorkerStarted,
    advance,
)
from mosaic.runs.monitoring import FolderGoneError, PeriodicChecks, prepare_curves
from mosaic.runs.processes import Row, below, end_all, look, marked
from mosaic.runs.resume import clear_cluster, end_leftovers
from mosaic.runs.state_file import StateFile, log
from mosaic.runs.worker_process import WorkerProcess, enter, read_progress, read_waiting
from mosaic.store.origin import GitState
from mosaic.store.run_folder import RunFolder
from mosaic.store.run_manifest import write_run_manifest
from mosaic.store.state import LIVE, ProcessRecord, RunState, State
from mosaic.telemetry.frames.sources import remove_rings

_END_WITHIN_S = 10.0
_LAST_WORD_WITHIN_S = 30.0
_SAID: dict[str, Event] = {
    "started": WorkerStarted(),
    "paused": WorkerPaused(),
    "resumed": WorkerResumed(),
    "finished": WorkerReturned("finished"),
    "stopped": WorkerReturned("stopped"),
}


class Supervision:
    """Supervision of one attempt of a run, from its start to its recorded end."""

    def __init__(self, folder: RunFolder, fifo: int, worker: WorkerProcess | None = None) -> None:
        """Take over `worker`, that of a first attempt which is already recorded and running."""
        self._folder, self._fifo = folder, fifo
        self._state_file = StateFile(folder)
        self._life = self._state_file.life
        self._worker = worker
        self._exit: int | None = None
        self._timer_s: float | None = None
        self._checks: PeriodicChecks | None = None
        self._selector = selectors.DefaultSelector()

    def run(self, ready: Callable[[], None]) -> None:
        """Run until the end of the run is recorded; call `ready` once commands can be sent."""
        try:
            self._start()
            ready()
            self._supervise()
            self._prepare_curves()
        except FolderGoneError as error:  # nothing can be saved or recorded
            log(str(error))
            self._end_everything()
        except BaseException:  # whatever went wrong here, no process of the run may stay behind
            traceback.print_exc()
            self._end_everything()
            if self._life.state in LIVE and self._state_file.has_begun(self._life.attempt):
                self._record_end(RecordEnd(State.FAILED, f"its supervisor failed; see {LOG}"))
            raise
        finally:
            self._folder.control.unlink(missing_ok=True)
            if self._checks is not None:
                self._checks.close(_END_WITHIN_S)

    def _start(self) -> None:
        self._started_s = monotonic()
        if self._life.state is State.FINISHED:
            raise InputError(f"The run {self._folder.run_id} is finished; there is nothing left to do.")
        self._watch_signals()
        self._selector.register(self._fifo, selectors.EVENT_READ, self._read_control)
        if self._worker is not None:
            self._attach(self._worker)
            return
        if self._state_file.record.attempts:
            self._recover()
        self._see(StartAsked())

    def _recover(self) -> None:
        """End the processes of earlier attempts, so that they do not write at the same time as this one."""
        end_leftovers(self._folder, self._state_file.record)
        life, _ = advance(self._life, SupervisorDied())
        if life.state is not self._life.state:
            self._state_file.end(life.state, life.reason, None, try_for_s=0.0)
        self._life = life

    def _supervise(self) -> None:
        self._checks = PeriodicChecks(self._folder, self._state_file, self._started_s)
        self._reap()  # it may have died before we watched
        while self._life.state in LIVE:
            for key, _ in self._selector.select(self._pause_s()):
                key.data()
            self._look_at_clock()

    def _pause_s(self) -> float:
        assert self._checks is not None
        next_s = self._checks.due_s if self._timer_s is None else min(self._checks.due_s, self._timer_s)
        return max(0.0, next_s - monotonic())

    def _look_at_clock(self) -> None:
        assert self._checks is not None
        now_s = monotonic()
        if self._timer_s is not None and now_s >= self._timer_s:
            self._timer_s = None
            self._see(TimerFired(now_s))
        if self._life.state in LIVE and (exceeded := self._checks.look(now_s)):
            self._see(exceeded)

    # Inputs

    def _watch_signals(self) -> None:
        """Turn signals into bytes that the loop reads like everything else."""
        self._signals, wake = os.pipe()
        for end in (self._signals, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        self._selector.register(self._signals, selectors.EVENT_READ, self._read_signals)

    def _read_signals(self) -> None:
        for number in os.read(self._signals, 4096):
            if number != signal.SIGCHLD:
                name = signal.Signals(number).name
                self._see(StopAsked(monotonic(), f"its supervisor was asked to end ({name})"))
        self._reap()

    def _read_control(self) -> None:
        for line in (read_waiting(self._fifo) or b"").splitlines():
            try:
                event = read_command(line, monotonic())
            except ValueError as error:
                log(f"a command was not understood: {line!r}: {error}")
            else:
                self._see(event)

    def _read_progress(self) -> None:
        assert self._worker is not None
        for line in self._worker.listen():
            match read_progress(line):
                case {"progress": "failed", "message": str(text)}:
                    self._see(WorkerFailed(text))
                case {"progress": "patience", "patience_s": int(seconds) | float(seconds)}:
                    self._see(PatienceMeasured(seconds))
                case {"progress": "code", "commit": str(commit), "dirty": bool() | None as dirty}:
                    self._state_file.note_code(GitState(commit=commit, dirty=dirty))
                case {"progress": str(word)} if word in _SAID:
                    self._see(_SAID[word])
                case _:
                    log(f"the worker sent a line that cannot be read: {line!r}")
        if self._worker.silent and self._worker.progress in self._selector.get_map():
            self._selector.unregister(self._worker.progress)

    def _reap(self) -> None:
        """Reap the worker and the orphans that we adopted."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            if self._worker is not None and pid == self._worker.pid:
                self._read_progress()  # its last messages say why
                self._exit = os.waitstatus_to_exitcode(status)
                failed = self._exit < 0
                self._see(WorkerExited(None, -self._exit) if failed else WorkerExited(self._exit))

    # Actions

    def _see(self, event: Event) -> None:
        self._life, commands = advance(self._life, event)
        for command in commands:
            self._carry_out(command)
        if self._life.state in LIVE:
            stop = self._life.stop
            self._state_file.note(self._life.state, stop.patience_s if stop else None)

    def _carry_out(self, command: Command) -> None:
        match command:
            case SpawnWorker(attempt):
                self._spawn(attempt)
            case Tell(order, reason):
                self._tell(order, reason)
            case Signal(number):
                if self._worker is not None:
                    self._worker.signal(number)
            case EndEverything():
                self._end_everything()
            case Arm(at_s):
                self._timer_s = at_s
            case Refuse(text):
                log(text)
            case RecordEnd():
                self._record_end(command)
            case _:
                assert_never(command)

    def _spawn(self, attempt: int) -> None:
        self._state_file.begin(attempt, _identity(os.getpid()))
        try:
            enter(self._state_file.record.working_folder, self._folder)
            self._worker = WorkerProcess(self._folder, attempt)
        except OSError as error:
            self._see(SpawnFailed(f"the worker could not be started: {error}"))
        else:
            self._attach(self._worker)

    def _attach(self, worker: WorkerProcess) -> None:
        self._selector.register(worker.progress, selectors.EVENT_READ, self._read_progress)
        self._state_file.note_worker(_identity(worker.pid))

    def _tell(self, order: str, reason: str) -> None:
        assert self._worker is not None
        try:
            self._worker.tell(command=order, **({"reason": reason} if reason else {}))
        except (BlockingIOError, BrokenPipeError) as error:
            log(f"'{order}' did not reach the worker: {error}")

    def _end_everything(self) -> None:
        survivors = end_all(self._ours, monotonic() + _END_WITHIN_S)
        if survivors:
            log(f"these processes do not end: {', '.join(str(each.pid) for each in survivors)}")
        else:
            remove_rings(self._folder.path)  # left by a worker that was killed; others remove their own
        clear_cluster(self._folder)

    def _ours(self) -> set[Row]:
        return below(os.getpid()) | marked(self._folder.run_id)

    def _record_end(self, end: RecordEnd) -> None:
        self._folder.control.unlink(missing_ok=True)  # first: if we are killed now, an ended run must not keep it
        facts = (end.state, end.reason, self._exit, _LAST_WORD_WITHIN_S)
        if not self._state_file.end(*facts, self._write_manifest, forced=end.forced):
            log(f"the end could not be written: {end.state}: {end.reason}")

    def _prepare_curves(self) -> None:
        try:
            prepare_curves(self._folder)
        except (MosaicError, OSError) as error:  # they are made on request
            log(f"the curves were not prepared: {error}")

    def _write_manifest(self, record: RunState) -> None:
        """Write the run's manifest, and sync its events so that they survive a power loss once it counts as ended."""
        try:
            if self._folder.metrics.exists():
                sync_file(self._folder.metrics)
            if self._folder.is_export():
                return
            write_run_manifest(self._folder, record)
        except (MosaicError, OSError) as error:
            log(f"manifest.json was not written: {error}")


def _identity(pid: int) -> ProcessRecord | None:
    row = look(pid)
    return ProcessRecord(pid=row.pid, start_time=row.start_time, boot=boot_id()) if row else None
