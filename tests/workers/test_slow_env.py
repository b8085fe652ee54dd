"""Runs in a slow env, whose rollouts would take hours: they report meanwhile, and a stop ends and saves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from tests.workers.hosting import run_config

ENV = """
import time

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete


class Slow(gymnasium.Env):
    observation_space, action_space = Discrete(3), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        time.sleep(0.01)
        self.steps += 1
        return self.steps % 3, 1.0, self.steps == 8, False, {}
"""
LONG = 10**15
HUGE = {"n_steps": 100_000, "batch_size": 64}
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "native": ("native", "ppo", HUGE),
    "native with torch": ("native", "ppo", {**HUGE, "engine": "torch"}),
    "native in processes": ("native", "ppo", {**HUGE, "env_processes": 2}),
    "native dqn": ("native", "dqn", {}),
    "tabular": ("tabular", "q_learning", {}),
}


@pytest.mark.parametrize("case", CASES)
def test_a_slow_run_reports_and_stops_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    worker, algorithm, params = CASES[case]
    monkeypatch.chdir(tmp_path)
    (tmp_path / "slow_env.py").write_text(ENV)
    environment: dict[str, Any] = {"env_id": "python:slow_env:Slow"}
    if worker == "native":
        environment["num_envs"] = 2
    config = run_config(
        worker,
        params,
        environment=environment,
        training={"algorithm": algorithm, "total_timesteps": LONG},
        telemetry={"report_every_s": 0.2},
    )
    run = Trainer(tmp_path / "home").submit(config)
    try:
        seen = training_events(run, 3)
    finally:
        run.stop()
    assert [event["trigger"] for event in seen] == ["clock"] * 3
    counts = [event["env_steps"] for event in seen]
    assert counts == sorted(set(counts))
    assert seen[-1]["episode_reward_mean"] == 8.0
    assert (run.state, run.forced, run.reason) == (State.STOPPED, False, "asked to stop")
    saved = run.checkpoints()[-1].env_steps
    assert counts[-1] <= saved < 10_000
    assert run.summary().env_steps == saved


def training_events(run: Run, count: int) -> list[dict[str, Any]]:
    """The first iteration events that tell how an episode ended."""
    found: list[dict[str, Any]] = []
    for event in run.events(follow=True):
        if event["kind"] == "iteration" and event.get("episode_reward_mean") is not None:
            if not found or event["env_steps"] > found[-1]["env_steps"]:
                found.append(dict(event))
            if len(found) == count:
                return found
    raise AssertionError(f"the run ended: {run.reason}\n{run.log()}")
