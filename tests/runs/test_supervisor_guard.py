"""Nothing of a run outlives it: neither a daemon without the run's mark, nor what a killed supervisor left."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from mosaic.core.system import PORTABLE
from mosaic.runs.processes import Row, is_alive, look
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from tests.runs.run_cases import eventually, first_event, toy

DAEMON = """
import os, signal, subprocess, sys, time
child = "import os, sys, time; os.setsid(); open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    subprocess.Popen([sys.executable, "-c", child, "daemon.pid.new"], env={}, stdout=subprocess.DEVNULL)
    os._exit(0)
os.wait()
while not os.path.exists("daemon.pid.new") or not open("daemon.pid.new").read():
    time.sleep(0.02)
os.rename("daemon.pid.new", "daemon.pid")
print('@METRIC {"env_steps": 1}', flush=True)
signal.pause()
"""


@pytest.fixture
def run_with_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: Trainer) -> tuple[Run, Row]:
    """A script's run, and the daemon that it started without the run's mark in its environment."""
    if PORTABLE:
        pytest.skip("without child subreapers a process is found by its mark alone")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "daemon.py").write_text(DAEMON)
    params = {"command": [sys.executable, "daemon.py"]}
    run = trainer.submit(
        {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "script", "params": params}}
    )
    assert eventually((tmp_path / "daemon.pid").exists, within_s=60)
    daemon = look(int((tmp_path / "daemon.pid").read_text()))
    assert daemon is not None
    assert b"MOSAIC_RUN" not in Path(f"/proc/{daemon.pid}/environ").read_bytes()
    return run, daemon


def test_a_daemon_without_the_mark_ends_with_its_run(run_with_daemon: tuple[Run, Row]) -> None:
    run, daemon = run_with_daemon
    run.stop()
    assert not is_alive(daemon)


def test_a_daemon_without_the_mark_ends_after_a_killed_supervisor(run_with_daemon: tuple[Run, Row]) -> None:
    run, daemon = run_with_daemon
    supervisor, worker = run.record().attempts[-1].supervisor, run.record().attempts[-1].worker
    assert supervisor is not None
    assert worker is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    assert eventually(lambda: run.state is State.LOST)
    assert eventually(lambda: not is_alive(daemon) and not is_alive(worker), within_s=60)


def test_what_a_killed_supervisor_and_worker_leave_is_ended(run_with_daemon: tuple[Run, Row]) -> None:
    run, daemon = run_with_daemon
    for process in (run.record().attempts[-1].supervisor, run.record().attempts[-1].worker):
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
    assert eventually(lambda: not is_alive(daemon), within_s=60)


def test_a_run_whose_folder_was_deleted_ends_itself(trainer: Trainer) -> None:
    run = trainer.submit(toy())
    first_event(run)
    processes = [run.record().attempts[-1].supervisor, run.record().attempts[-1].worker]
    gone = run.folder.path.rename(run.folder.path.with_name("deleted"))  # at once: its processes still write
    shutil.rmtree(gone, ignore_errors=True)
    for process in processes:
        assert process is not None
        assert eventually(lambda process=process: not is_alive(process), within_s=60)  # type: ignore[misc]
    assert not run.folder.path.exists()
