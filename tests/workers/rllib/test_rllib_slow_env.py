"""RLlib in a slow env, whose iterations would take minutes or hours: counters grow meanwhile, and a stop saves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from tests.workers.hosting import run_config

ENVS = """
import time

import gymnasium
from gymnasium.spaces import Discrete
from pettingzoo import ParallelEnv


class Slow(gymnasium.Env):
    observation_space, action_space = Discrete(3), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return 0, {}

    def step(self, action):
        time.sleep(0.02)
        self.steps += 1
        return self.steps % 3, 1.0, self.steps == 8, False, {}


class SlowPair(ParallelEnv):
    metadata = {"name": "slow_pair"}
    possible_agents = ["a", "b"]
    render_mode = None

    def observation_space(self, agent):
        return Discrete(3)

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = ["a", "b"], 0
        return {agent: 0 for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(self, actions):
        time.sleep(0.02)
        self.steps += 1
        over, names = self.steps == 8, self.agents
        self.agents = [] if over else names
        every = lambda value: {name: value for name in names}
        return every(self.steps % 3), every(1.0), every(over), every(False), every({})
"""
HUGE = {"train_batch_size_per_learner": 1_000_000, "minibatch_size": 64, "num_epochs": 1, "fcnet_hiddens": [8]}
FIRST = "ppo"
CASES: dict[str, tuple[str, str, dict[str, Any]]] = {
    FIRST: ("Slow", "ppo", {**HUGE, "num_env_runners": 1, "num_envs_per_env_runner": 2}),
    "two runners": ("Slow", "ppo", {**HUGE, "num_env_runners": 2, "num_envs_per_env_runner": 2}),
    "no runners of their own": ("Slow", "ppo", {**HUGE, "num_env_runners": 0, "num_envs_per_env_runner": 2}),
    "two agents": ("SlowPair", "ppo", {**HUGE, "num_env_runners": 1, "num_envs_per_env_runner": 2}),
    "complete episodes": (
        "Slow",
        "ppo",
        {**HUGE, "num_env_runners": 1, "num_envs_per_env_runner": 2, "batch_mode": "complete_episodes"},
    ),
    "a2c": ("Slow", "a2c", {"train_batch_size_per_learner": 1_000_000, "fcnet_hiddens": [8], "num_env_runners": 1}),
    "dqn": (
        "Slow",
        "dqn",
        {"fcnet_hiddens": [8], "num_env_runners": 1, "min_sample_timesteps_per_iteration": 1_000_000},
    ),
}
ASYNCHRONOUS = ("impala", "appo")
CASES |= {
    name: (
        "Slow",
        name,
        {"fcnet_hiddens": [8], "num_env_runners": 1, "min_sample_timesteps_per_iteration": 1_000_000}
        | {"rollout_fragment_length": 10, "train_batch_size_per_learner": 40},
    )
    for name in ASYNCHRONOUS
}


def begin(folder: Path, env: str, algorithm: str, params: dict[str, Any]) -> Run:
    (folder / "slow_envs.py").write_text(ENVS)
    config = run_config(
        "rllib",
        params,
        environment={"env_id": f"python:slow_envs:{env}"},
        training={"algorithm": algorithm, "total_timesteps": 10**12},
        telemetry={"report_every_s": 0.2},
        checkpoint={"every_steps": 10**12},
    )
    return Trainer(folder / "home").submit(config)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [pytest.param(FIRST, marks=pytest.mark.chosen), *(name for name in CASES if name != FIRST)]
)
def test_counters_grow_within_an_iteration_and_a_stop_saves_what_was_sampled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = begin(tmp_path, *CASES[case])
    try:
        seen = growing_events(run, 4)
    finally:
        run.stop()
    assert case in ASYNCHRONOUS or [event["trigger"] for event in seen] == ["clock"] * 4
    assert {event["episode_reward_mean"] for event in seen} == {8.0}
    assert {event["episode_len_mean"] for event in seen} == {8.0}
    assert all(event["episodes_total"] * 8 <= event["env_steps"] for event in seen)
    assert (run.state, run.forced, run.reason) == (State.STOPPED, False, "asked to stop"), run.log()
    told = [event["env_steps"] for event in run.events() if event["kind"] == "iteration"]
    assert told == sorted(told)
    saved = run.checkpoints()[-1].env_steps
    assert told[-1] == saved < 100_000
    assert seen[-1]["env_steps"] <= saved


def growing_events(run: Run, count: int) -> list[dict[str, Any]]:
    """The first iteration events that tell how an episode ended, each with more steps than the one before."""
    found: list[dict[str, Any]] = []
    for event in run.events(follow=True):
        if event["kind"] == "iteration" and event.get("episode_reward_mean") is not None:
            if not found or event["env_steps"] > found[-1]["env_steps"]:
                found.append(dict(event))
            if len(found) == count:
                return found
    raise AssertionError(f"the run ended: {run.reason}\n{run.log()}")
