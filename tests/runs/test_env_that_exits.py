"""Code of the user's that ends the worker's process: the run has failed, and resumes where it saved."""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.store.state import State

ENV = """
import os
from pathlib import Path

import gymnasium
from gymnasium.spaces import Box, Discrete
import numpy as np


class Exits(gymnasium.Env):
    observation_space, action_space = Box(-1, 1, (2,), np.float32), Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        Exits.steps += 1
        if Exits.steps == 300 and Path("exits").exists():
            EXIT
        return np.zeros(2, np.float32), 1.0, Exits.steps % 20 == 0, False, {}
"""


OS_EXIT = ("os._exit(0)", "the worker ended with exit code 0, before its training had ended")
SYSTEM_EXIT = ("raise SystemExit(0)", "SystemExit: 0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("worker", "exit_line", "reason"),
    [
        pytest.param("native", *OS_EXIT, marks=pytest.mark.chosen),
        pytest.param("tabular", *SYSTEM_EXIT, marks=pytest.mark.chosen),
        ("native", *SYSTEM_EXIT),
        ("tabular", *OS_EXIT),
    ],
)
def test_exit_of_an_env_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trainer: Trainer, worker: str, exit_line: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exiting_env.py").write_text(ENV.replace("EXIT", exit_line))
    (tmp_path / "exits").touch()
    params = {"native": {"n_steps": 16}, "tabular": {"bins": 2, "report_every_steps": 50}}
    run = trainer.submit(
        {
            "environment": {"env_id": "python:exiting_env:Exits", "num_envs": 1 if worker == "native" else None},
            "training": {"worker": worker, "total_timesteps": 640, "params": params[worker]},
            "checkpoint": {"every_steps": 64},
        }
    )
    assert run.wait(120) is State.FAILED
    assert run.reason.startswith(reason)
    saved = run.checkpoints()[-1].env_steps
    assert 0 < saved < 320
    (tmp_path / "exits").unlink()
    run.resume()
    assert run.wait(120) is State.FINISHED, run.reason
    assert run.summary().env_steps == 640
