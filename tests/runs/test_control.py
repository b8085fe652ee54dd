"""Commands to a run and looks at its state, where the system allows less than Linux."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from mosaic.core.errors import InputError
from mosaic.runs import control, launch, worker_process
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import Attempt, ProcessRecord, RunState, State


@pytest.mark.parametrize("room", [512, 4096])  # of macOS and of Linux
def test_a_reason_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
    monkeypatch.setattr(control.select, "PIPE_BUF", room)
    folder = RunFolder(tmp_path)
    reader = control.open_control(folder)
    try:
        control.send(folder, "stop", reason="x" * (room - 60))
        with pytest.raises(InputError, match=rf"command 'stop' takes .* reads at most {room:,} .*a shorter reason"):
            control.send(folder, "stop", reason="x" * room)
        assert os.read(reader, 10_000).count(b"\n") == 1
    finally:
        os.close(reader)


def test_polling_a_run_starts_no_threads_where_processes_have_no_handles(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int) -> int:
        raise AssertionError("a handle for every look")

    monkeypatch.setattr(launch, "PORTABLE", True)
    monkeypatch.setattr(launch, "open_process", refuse)
    supervisor = ProcessRecord(pid=os.getpid(), start_time=0.0, boot="")
    before = threading.active_count()
    attempts = (Attempt(number=1, supervisor=supervisor),)
    launch.sleep_between_polls(
        RunState(run_id="a-run", state=State.RUNNING, queued_at=0.0, updated=0.0, attempts=attempts)
    )
    assert threading.active_count() == before


def test_a_group_of_zombies_may_refuse_a_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: int, number: int) -> None:
        asked.append(group)
        raise PermissionError

    asked: list[int] = []
    monkeypatch.setattr(os, "killpg", refuse)
    worker = worker_process.WorkerProcess.__new__(worker_process.WorkerProcess)
    worker.pid = 7
    worker.signal(worker_process.SIGTERM)
    assert asked == [7]
