"""Attempts of runs in the test's own process: for tests of what a worker trains, reports and saves.

A run with a supervisor and a worker of its own takes one to two seconds of imports. Tests of processes, signals and
commands to a live run need them; tests of what is in a finished run's folder do not. `attempt_here` takes the place of
`start_attempt` and returns when the attempt has ended: the worker's host, the life cycle's judgement and the manifest
are those of any other run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest.mock import patch

from mosaic.config.field_types import MOST_STEPS
from mosaic.core.system import boot_id
from mosaic.runs.exporting import process
from mosaic.runs.launch import RunAliveError, start_attempt
from mosaic.runs.lifecycle import Life, RecordEnd, WorkerExited, WorkerFailed, WorkerReturned, WorkerStarted, advance
from mosaic.runs.processes import look
from mosaic.runs.run import Run
from mosaic.runs.state_file import StateFile
from mosaic.runs.trainer import Asked, Trainer
from mosaic.runs.worker_process import enter
from mosaic.store.archives.trust import VARIABLE
from mosaic.store.index.index import Index
from mosaic.store.lock import RunLock
from mosaic.store.origin import GitState
from mosaic.store.run_folder import RunFolder
from mosaic.store.run_manifest import write_run_manifest
from mosaic.store.state import ProcessRecord, RunState, State
from mosaic.workers import host

_FEW_STEPS = 4000


def attempt_here(folder: RunFolder, attempt: int, *, trust: bool = False, inherited: tuple[int, ...] = ()) -> None:
    """Run one attempt to its end, as `start_attempt` and the run's processes do together."""
    with RunLock(folder) as lock:  # without it, other processes take the run for lost and end its processes: this one
        if not lock.try_acquire():
            raise RunAliveError(f"The run {folder.run_id} is held by another process.")
        _attempt(folder, attempt, trust=trust)


def _attempt(folder: RunFolder, attempt: int, *, trust: bool) -> None:
    row = look(os.getpid())
    assert row is not None
    # Of an earlier life of this pid: a supervisor that continues the run would end this process with what was left.
    me = ProcessRecord(pid=row.pid, start_time=row.start_time - 1, boot=boot_id())
    state_file = StateFile(folder)
    state_file.begin(attempt, me)
    state_file.note_worker(me)
    life = Life(State.STARTING, attempt)
    code, messages = _host(folder, attempt, state_file.record, trust=trust)
    for message in messages:
        match message:
            case {"progress": "started"}:
                life, _ = advance(life, WorkerStarted())
            case {"progress": "failed", "message": str(text)}:
                life, _ = advance(life, WorkerFailed(text))
            case {"progress": "code", "commit": str(commit), "dirty": bool() | None as dirty}:
                state_file.note_code(GitState(commit=commit, dirty=dirty))
            case {"progress": "finished" | "stopped" as outcome}:
                life, _ = advance(life, WorkerReturned(outcome))
    life, commands = advance(life, WorkerExited(code))
    (end,) = (command for command in commands if isinstance(command, RecordEnd))
    if folder.is_export():
        assert state_file.end(end.state, end.reason, code, 0.0)
        return
    assert state_file.end(end.state, end.reason, code, 0.0, lambda record: write_run_manifest(folder, record))
    Index(folder.home).refresh(folder)


def trained_here(home: Path, config: Asked) -> Run:
    """Submit a run, train it in this process, and return it with its end recorded."""
    run = Trainer(home).submit(config, start=False)
    attempt_here(run.folder, 1)
    return run


def short_attempt_here(folder: RunFolder, attempt: int, *, trust: bool = False) -> None:
    """Run an attempt in this process if it ends by itself after a few steps, else in processes of its own."""
    training = folder.read_config().training
    ends = training.episodes is not None or training.stop_reward is not None
    here = ends or (training.total_timesteps or MOST_STEPS) <= _FEW_STEPS
    (attempt_here if here else start_attempt)(folder, attempt, trust=trust)


def _host(folder: RunFolder, attempt: int, record: RunState, *, trust: bool) -> tuple[int, list[dict[str, object]]]:
    """Return the exit code of the worker's host and what it reported."""
    reader, writer = os.pipe()
    variables = {
        "MOSAIC_RUN": folder.run_id,
        "MOSAIC_HOME": str(folder.home),
        "MOSAIC_PROGRESS_FD": str(writer),
        **({VARIABLE: "1"} if trust else {}),
    }
    before = os.getcwd()
    with os.fdopen(reader) as progress, ExitStack() as surroundings:
        surroundings.enter_context(patch.dict(os.environ, variables))
        surroundings.enter_context(patch.object(sys, "argv", ["host", str(folder.path), str(attempt)]))
        surroundings.enter_context(_output_in(folder))
        surroundings.enter_context(_signals_kept())
        surroundings.enter_context(_torch_threads_kept())
        surroundings.callback(os.chdir, before)
        enter(record.working_folder, folder)
        try:
            code = process.main() if folder.is_export() else host.main()
        finally:
            os.close(writer)
        return code, [json.loads(line) for line in progress]


@contextmanager
def _output_in(folder: RunFolder) -> Iterator[None]:
    """Write output and warnings to the run's logs, those of programs that the worker starts too."""
    with folder.log.open("a") as log, folder.errors.open("a") as errors:
        kept = os.dup(1), os.dup(2)
        os.dup2(log.fileno(), 1)
        os.dup2(errors.fileno(), 2)
        try:
            with redirect_stdout(log), redirect_stderr(errors), warnings.catch_warnings():
                warnings.simplefilter("default")
                yield
        finally:
            for descriptor, copy in zip((1, 2), kept, strict=True):
                os.dup2(copy, descriptor)
                os.close(copy)


@contextmanager
def _signals_kept() -> Iterator[None]:
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)


@contextmanager
def _torch_threads_kept() -> Iterator[None]:
    torch = sys.modules.get("torch")
    threads = torch.get_num_threads() if torch else None
    try:
        yield
    finally:
        torch = sys.modules.get("torch")
        if torch and threads is not None:
            torch.set_num_threads(threads)
