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
