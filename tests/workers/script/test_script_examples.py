"""A trainer in one file, in the manner of CleanRL: it learns under Mosaic's care, and its weights play."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.store.checkpoints import list_checkpoints
from tests.workers.hosting import Hosted, new_folder, run_config

ROOT = Path(__file__).parents[3]
sys.path.append(str(ROOT))

from examples.scripts.cleanrl_style import forward, gradient, new_weights, returns  # noqa: E402


@pytest.mark.slow
@pytest.mark.chosen
def test_the_trainer_learns_and_its_weights_play(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "scripts" / "cleanrl_style.py")]
    folder = new_folder(tmp_path, run_config("script", {"command": command}, seed=1))
    with Hosted(folder) as host:
        assert host.wait() == 0, host.log()
    rewards = [event["episode_reward_mean"] for event in host.events("iteration")]
    assert rewards[0] < 60
    assert rewards[-1] >= 490
    policy = "*=python:examples.scripts.cleanrl_style:play"
    answer = subprocess.run(
        [sys.executable, "-c", "from mosaic.ui.cli.main import main; main()", "evaluate", "gym/CartPole-v1",
         "--agent", policy, "--episodes", "10", "--json"],
        cwd=ROOT,
        env={**os.environ, "CLEANRL_STYLE_WEIGHTS": str(folder.path / "program" / "weights.npz")},
        capture_output=True,
        text=True,
        check=True,
    )  # fmt: skip
    assert json.loads(answer.stdout)["agents"]["agent_0"]["return_mean"] > 450


def test_a_stop_keeps_what_was_learned(tmp_path):
    command = [sys.executable, str(ROOT / "examples" / "scripts" / "cleanrl_style.py"), "--target", "1e9",
               "--iterations", "1000000", "--episodes", "1"]  # fmt: skip
    folder = new_folder(tmp_path, run_config("script", {"command": command}))
    with Hosted(folder) as host:
        host.event(lambda event: event["kind"] == "iteration")
        host.say("stop")
        assert host.wait() == 3
    assert "asked to stop: what was learned so far is kept" in host.log()
    with np.load(folder.path / "program" / "weights.npz") as weights:
        assert weights["w1"].shape == (4, 32)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.floats(0, 1))
def test_returns_are_discounted_sums(rewards, discount):
    expected = [sum(discount**k * reward for k, reward in enumerate(rewards[t:])) for t in range(len(rewards))]
    np.testing.assert_allclose(returns(np.array(rewards), discount), expected, atol=1e-9)


def test_the_gradient_is_the_slope_of_the_loss():
    random = np.random.default_rng(0)
    weights = new_weights(5, random)
    weights["w2"], weights["value"] = random.normal(size=(5, 2)), random.normal(size=5)
    seen, actions, gains = random.normal(size=(40, 4)), random.integers(2, size=40), random.normal(size=40)
    baseline = forward(weights, seen)[0] @ weights["value"]
    advantage = gains - baseline
    advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)

    def loss(name, place, change):
        moved = {**weights, name: weights[name].copy()}
        moved[name][place] += change
        hidden, chances = forward(moved, seen)
        if name == "value":
            return 0.5 * ((hidden @ moved["value"] - gains) ** 2).mean()
        return -(np.log(chances[np.arange(40), actions]) * advantage).mean()

    for name, slope in gradient(weights, seen, actions, gains).items():
        for place in np.ndindex(slope.shape):
            measured = (loss(name, place, 1e-5) - loss(name, place, -1e-5)) / 2e-5
            assert slope[place] == pytest.approx(measured, abs=1e-6)


def run_example(tmp_path, name, *words):
    command = [sys.executable, str(ROOT / "examples" / "scripts" / name), *words]
    folder = new_folder(tmp_path, run_config("script", {"command": command}, seed=1))
    with Hosted(folder) as host:
        assert host.wait() == 0, host.log()
    assert host.events("alert") == []
    return folder, host.events("iteration")


@pytest.mark.slow
def test_the_script_of_sb3_reports_and_its_model_plays(tmp_path, monkeypatch):
    from mosaic import evaluate

    folder, events = run_example(tmp_path, "sb3_script.py", "--steps", "2048", "--save-every", "1024")
    assert events[-1]["env_steps"] == 2048
    assert events[-1]["episodes_total"] > 10
    assert events[-1]["policies"]["policy"]["learner"]["value_loss"] > 0
    assert [each.env_steps for each in list_checkpoints(folder)] == [1024, 2048]
    last = list_checkpoints(folder)[-1].path
    found = evaluate("gym/CartPole-v1", {"*": f"checkpoint:{last}"}, episodes=2, seed=1)
    assert found.agents["agent_0"].returns.mean >= 8


@pytest.mark.slow
def test_the_script_of_rllib_reports_and_saves(tmp_path):
    folder, events = run_example(tmp_path, "rllib_script.py", "--iterations", "5", "--batch", "200")
    assert [event["training_iteration"] for event in events] == [1, 2, 3, 4, 5]
    assert events[-1]["env_steps"] >= 1000
    assert events[-1]["episode_reward_mean"] > 8
    assert "value_loss" in events[-1]["policies"]["default_policy"]["learner"]
    assert len(list_checkpoints(folder)) == 1


@pytest.mark.slow
def test_the_script_of_tune_reports_its_trials(tmp_path):
    _, events = run_example(tmp_path, "tune_script.py", "--trials", "2", "--iterations", "3")
    assert len(events) == 6
    assert events[-1]["env_steps"] == 600
    assert events[-1]["custom_metrics"]["trials"] == 2
    names = {name for event in events for name in event["policies"]}
    assert len(names) == 2
