"""Export jobs in processes of their own: cancelled and killed ones leave neither a file nor a process."""

from __future__ import annotations

from pathlib import Path
from time import monotonic

import pytest

from mosaic.config.export import ExportRequest
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.processes import end_all, look, marked
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import Attempt, State, read_written_state

pytestmark = pytest.mark.slow
_WITHIN_S = 60.0


@pytest.fixture
def jobs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ExportJobs:
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    return ExportJobs()


def attempt(home: Path, export_id: str) -> Attempt:
    return read_written_state(RunFolder(home / "exports" / export_id)).attempts[-1]


def kill(pid: int) -> None:
    row = look(pid)
    end_all(lambda: [each for each in (look(pid),) if row is not None and each == row], monotonic() + _WITHIN_S)


def test_a_cancelled_job_ends_without_a_file(jobs: ExportJobs, tmp_path: Path) -> None:
    started = jobs.start(ExportRequest(run="lake", out="lake.onnx"))
    assert started.state in (State.STARTING, State.RUNNING)
    row = jobs.cancel(started.export_id)
    assert (row.state, row.written) == (State.STOPPED, ())
    assert list(tmp_path.iterdir()) == []
    assert not marked(row.export_id)


def test_a_killed_process_fails_the_job_with_its_signal(jobs: ExportJobs, home: Path, tmp_path: Path) -> None:
    started = jobs.start(ExportRequest(run="lake", out="lake.onnx"))
    worker = attempt(home, started.export_id).worker
    assert worker is not None
    kill(worker.pid)
    *_, row = jobs.follow(started.export_id)
    assert row.state is State.FAILED
    assert "SIGKILL" in row.reason
    assert list(tmp_path.iterdir()) == []


def test_a_job_without_its_supervisor_is_lost(jobs: ExportJobs, home: Path, tmp_path: Path) -> None:
    started = jobs.start(ExportRequest(run="lake", out="lake.onnx"))
    supervisor = attempt(home, started.export_id).supervisor
    assert supervisor is not None
    kill(supervisor.pid)
    row = jobs.row(started.export_id)
    assert row.state is State.LOST
    assert "its processes died" in row.reason
    end_all(lambda: marked(row.export_id), monotonic() + _WITHIN_S)  # it stops by itself too, within seconds
    assert list(tmp_path.iterdir()) == []
