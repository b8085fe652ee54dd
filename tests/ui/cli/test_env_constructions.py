"""How often a run constructs its env, counted over all processes: once to describe it, then to train."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.workers import resolution
from mosaic.workers.resolution import resolve

ENV = """
import os

import gymnasium
from gymnasium.spaces import Box, Discrete

class Corridor(gymnasium.Env):
    observation_space, action_space = Discrete(6), Discrete(2)

    def __init__(self, noisy=False):
        self.noisy, self.place = noisy, 0
        with open(os.environ["CONSTRUCTED"], "a") as file:
            file.write(f"{os.getpid()}\\n")

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = int(self.np_random.integers(3)) if self.noisy else 0
        return self.place, {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        return self.place, float(self.place == 5), self.place == 5, False, {}
"""


@pytest.fixture
def constructed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "constructed"
    file.touch()
    (tmp_path / "corridor.py").write_text(ENV)
    monkeypatch.setenv("CONSTRUCTED", str(file))
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    return file


def counts(file: Path) -> list[int]:
    """Return the number of constructions in each process, in the order of the processes' first ones."""
    return list(Counter(file.read_text().split()).values())


def train(mosaic, file: Path, *words: str) -> list[dict[str, object]]:
    answer = mosaic("train", f"python:{file.parent / 'corridor.py'}:Corridor", "--json", "--steps", "200", *words)
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    return result if isinstance(result, list) else [result]


TRAININGS = {
    "native": ("--worker", "native", "--set", "environment.num_envs=1"),
    "native, Q-network": ("--worker", "native", "--algo", "dqn", "--set", "environment.num_envs=1"),
    "native, two envs": ("--worker", "native", "--set", "environment.num_envs=2"),
    "picked, compiled to arrays": (),
    "tabular, in the env": ("--worker", "tabular", "--set", "training.params.compile_env=false"),
    "tabular, cannot be compiled": ("--worker", "tabular", "--set", "environment.options.noisy=true"),
    "toy": ("--worker", "toy"),
    "tabular, hashed": ("--worker", "tabular", "--set", "training.params.table=hashed"),
}


def in_the_worker(training: str) -> int:
    """Return the number of envs that train, and one for the evaluation after the training."""
    return {"toy": 1, "native, two envs": 3}.get(training, 2)


IN_PROCESSES = ["native", "picked, compiled to arrays", "toy"]


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("training", IN_PROCESSES)
def test_an_env_is_described_in_one_process_and_trains_in_another(mosaic, constructed, training):
    train(mosaic, constructed, *TRAININGS[training])
    assert counts(constructed) == [1, in_the_worker(training)]


@pytest.mark.parametrize("training", sorted({*TRAININGS} - {*IN_PROCESSES}))
def test_an_env_is_described_once_and_then_trains(mosaic, constructed, runs_here, training):
    train(mosaic, constructed, *TRAININGS[training])
    assert counts(constructed) == [1 + in_the_worker(training)]


@pytest.mark.parametrize("training", IN_PROCESSES)
def test_a_group_of_seeds_is_resolved_once(mosaic, constructed, runs_here, training):
    results = train(mosaic, constructed, *TRAININGS[training], "--seeds", "3")
    assert len(results) == 3
    assert counts(constructed) == [1 + 3 * in_the_worker(training)]


def test_members_of_a_group_are_what_submitting_each_would_store(constructed, monkeypatch):
    env = {"env_id": f"python:{constructed.parent / 'corridor.py'}:Corridor"}
    asked = {"environment": env, "name": "walk", "seed": 4, "training": {"total_timesteps": 100}}
    resolved = resolve(Trainer().submit(asked, start=False).config)
    trainer = Trainer()
    group = trainer.submit_group(asked, 2, start=False)
    assert len({run.config.seed for run in group}) == 2
    for number, run in enumerate(group, start=1):
        alone = trainer.submit({**asked, "seed": run.config.seed, "name": f"walk-{number}"}, start=False)
        assert alone.config == run.config
    monkeypatch.setattr(resolution, "_choose", lambda config: pytest.fail("it was resolved again"))
    again = trainer.submit_group(resolved, 2, start=False)
    assert [run.config.training for run in again] == [run.config.training for run in group]
