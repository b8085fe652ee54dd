"""Attempts in the tests' own process: other processes take them for live runs, and never end the tests."""

import os
import subprocess
import sys

import pytest

from mosaic.runs.launch import RunAliveError
from mosaic.runs.trainer import Trainer
from mosaic.store.lock import RunLock
from tests import in_process

CONFIG = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 50}}
LOOK = """
import sys
from pathlib import Path
from mosaic.runs.resume import end_leftovers
from mosaic.runs.trainer import Trainer
run = Trainer(Path(sys.argv[1])).run(sys.argv[2])
print(run.state)
end_leftovers(run.folder, run.record(), grace_s=0.0)
"""


def test_others_see_a_live_run_and_do_not_end_this_process(tmp_path, monkeypatch):
    run = Trainer(tmp_path).submit(CONFIG, start=False)
    said = []

    def host():
        command = [sys.executable, "-c", LOOK, str(tmp_path), run.id]
        environment = {name: value for name, value in os.environ.items() if name != "MOSAIC_RUN"}
        said.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
        return train()

    train = in_process.host.main
    monkeypatch.setattr(in_process.host, "main", host)
    in_process.attempt_here(run.folder, 1)
    assert said == ["starting\n"]
    assert run.state == "finished"


def test_a_run_that_another_process_holds_is_not_started(tmp_path):
    run = Trainer(tmp_path).submit(CONFIG, start=False)
    with RunLock(run.folder) as lock:
        assert lock.try_acquire()
        with pytest.raises(RunAliveError, match="held by another process"):
            in_process.attempt_here(run.folder, 1)
