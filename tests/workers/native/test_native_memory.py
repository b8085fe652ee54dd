"""Policies with memory in runs: trained, evaluated, played, served and exported, each with a state of its own."""

from __future__ import annotations

from itertools import cycle

import numpy as np
import pytest

import mosaic
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.runs.trainer import Trainer
from tests.server.policy.policy_kit import serving
from tests.workers.hosting import run_config

RECALL = "mosaic/recall"
DELAY = {"delay": 1}
PARAMS = {
    "n_steps": 32, "batch_size": 128, "n_epochs": 4, "learning_rate": 1e-2, "gamma": 0.5, "hidden": [16],
    "memory_size": 16,
}  # fmt: skip
CUES = np.eye(3, dtype=np.float32)[:2]  # a cue is shown, then nothing, then the question
NOTHING, QUESTION = np.zeros(3, np.float32), np.eye(3, dtype=np.float32)[2]


@pytest.fixture
def home(tmp_path, monkeypatch, runs_here):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trained(home, memory):
    """Return a finished run that names the cue."""
    wanted = run_config(
        "native",
        PARAMS | {"memory": memory},
        environment={"env_id": RECALL, "options": DELAY, "num_envs": 16},
        training={"total_timesteps": 16_000, "preset": False},
    )
    run = Trainer(home).submit(wanted)
    assert run.wait(120) == "finished", run.log()
    return run


def answers(reference):
    """Return what is answered after each cue, one episode after the other by one controller."""
    env = make_env(RECALL, **DELAY)
    policy, turn = load_policy(reference, env.spec), env.reset(0)
    found = []
    for cue in (*CUES, *CUES[::-1]):
        policy.begin((AGENT,), 0)
        for seen in (cue, NOTHING, QUESTION):
            action = policy.act(turn._replace(observations={AGENT: seen}))[AGENT]
        found.append(int(action))
    return found


@pytest.mark.parametrize("memory", ["gru", "mingru"])
def test_a_run_is_evaluated_played_and_served_with_its_memory(home, memory):
    run = trained(home, memory)
    reference = f"run:{run.id}"
    judged = mosaic.evaluate(EnvironmentConfig(env_id=RECALL, options=DELAY), {"*": reference}, episodes=20)
    assert judged.agents[AGENT].returns.mean == 1.0
    assert answers(reference) == [0, 1, 1, 0]
    with serving(reference, RECALL, options=DELAY) as server, server.client() as client:
        episodes = [client.start_episode() for _ in range(4)]
        cues = dict(zip(episodes, cycle(CUES), strict=False))
        client.get_action(episodes, cues)
        client.get_action(episodes[::-1], dict.fromkeys(episodes, NOTHING))  # in another order
        told = client.get_action(episodes[:2], dict.fromkeys(episodes, QUESTION))
        told |= {each: client.get_action(each, QUESTION) for each in episodes[2:]}
    assert [told[each] for each in episodes] == [0, 1, 0, 1]


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("memory", ["gru", "mingru"])
def test_a_run_is_exported_with_its_memory(home, memory):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    run = trained(home, memory)
    (file,) = mosaic.export(run.id, "recall.onnx")
    assert file.parity.passed
    assert file.parity.max_abs_diff < 1e-4
    assert answers("onnx:recall.onnx") == answers(f"run:{run.id}") == [0, 1, 1, 0]
