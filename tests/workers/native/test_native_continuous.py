"""SAC and TD3 in runs: trained, resumed, evaluated, played and exported."""

from __future__ import annotations

import numpy as np
import pytest

import mosaic
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.catalog import make_env
from mosaic.models.weights_file import load_weights
from mosaic.policies.registry import load_policy
from mosaic.runs.trainer import Trainer
from tests.workers.hosting import run_config

PENDULUM = "gym/Pendulum-v1"
SMALL = {"hidden": [16, 16], "learning_starts": 50, "batch_size": 32, "buffer_size": 400}


@pytest.fixture
def home(tmp_path, monkeypatch, runs_here):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    return tmp_path


def finished(home, algorithm, steps, env=PENDULUM, **settings):
    training = {"total_timesteps": steps, "algorithm": algorithm, "preset": False}
    wanted = run_config("native", SMALL, environment={"env_id": env}, training=training, **settings)
    run = Trainer(home).submit(wanted)
    assert run.wait(120) == "finished", run.log()
    return run


def weights_of(run):
    return load_weights(run.checkpoints()[-1].path / "policy_0.safetensors").flat


def decisions(reference, observations):
    env = make_env(PENDULUM)
    policy = load_policy(reference, env.spec)
    policy.begin((AGENT,), 3)
    turn = env.reset(0)
    return np.array([policy.act(turn._replace(observations={AGENT: seen}))[AGENT][0] for seen in observations])


@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_a_stopped_run_continues_with_the_same_numbers_and_its_policy_is_evaluated(home, algorithm):
    evaluation = {"every_steps": 300, "episodes": 1}
    whole = finished(home, algorithm, 600, evaluation=evaluation)
    half = finished(home, algorithm, 304)
    half.resume(settings=["training.total_timesteps=600"])
    assert half.wait(120) == "finished", half.log()
    assert (weights_of(half) == weights_of(whole)).all()
    events = list(whole.events())
    assert [event for event in events if event["kind"] == "evaluation"]
    losses = [event for event in events if event["kind"] == "iteration"][-1]["policies"]["shared"]["learner"]
    assert losses["critic_loss"] > 0
    assert ("ent_coef" in losses) == (algorithm == "sac")
    observations = np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32)
    greedy = decisions(f"run:{whole.id}", observations)
    assert (np.abs(greedy) <= 2).all()
    assert np.ptp(greedy) > 0.01
    sampled = decisions(f"run:{whole.id},sample=true", observations)
    assert not np.array_equal(greedy, sampled)
    assert (np.abs(sampled) <= 2).all()


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("algorithm", ["sac", "td3"])
def test_a_policy_is_exported_and_compared(home, monkeypatch, algorithm):
    pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    monkeypatch.chdir(home)
    run = finished(home, algorithm, 200)
    (file,) = mosaic.export(run.id, "pendulum.onnx")
    assert file.parity.passed
    assert file.parity.max_abs_diff < 1e-4
    observations = np.random.default_rng(0).uniform(-1, 1, (40, 3)).astype(np.float32)
    ours, theirs = (decisions(name, observations) for name in (f"run:{run.id}", "onnx:pendulum.onnx"))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
