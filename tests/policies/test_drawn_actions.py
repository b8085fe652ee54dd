"""Policies of action values that draw: by the exploration of training, or by a temperature."""

import json

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.policies.controller import Sampling
from mosaic.policies.random import EpsilonGreedyController
from mosaic.policies.tabular import TabularPolicyController
from mosaic.workers.tabular.policies import drawing
from tests.policies.hosting_runs import finished_run

VALUES = np.array([[1.0, 3.0, 2.0, 3.0], [0.0, 0.0, 9.0, 0.0]], np.float32)
MASK = np.array([True, False, True, True])


def frequencies(controller, turn, count=2000):
    controller.begin(("a",), 7)
    return np.bincount([controller.act(turn)["a"] for _ in range(count)], minlength=4) / count


@pytest.mark.parametrize("drawn", [{}, {"epsilon": 0.4}, {"temperature": 0.7}])
@pytest.mark.parametrize("masks", [{}, {"a": MASK}])
def test_a_table_plays_with_the_probabilities_that_it_explains(drawn, masks):
    controller = TabularPolicyController(VALUES, int, int, **drawn)
    turn = Turn({"a": 0}, masks, {}, {}, {}, {}, {})
    shares = controller.explain(turn)["a"].probabilities
    assert shares.sum() == pytest.approx(1)
    np.testing.assert_allclose(frequencies(controller, turn), shares, atol=0.04)
    assert not masks or shares[1] == 0
    assert np.array_equal(frequencies(controller, turn, 50), frequencies(controller, turn, 50))


def test_the_probabilities_of_a_table():
    turn = Turn({"a": 0}, {}, {}, {}, {}, {}, {})

    def shares(**drawn):
        return TabularPolicyController(VALUES, int, int, **drawn).explain(turn)["a"].probabilities

    np.testing.assert_allclose(shares(), [0, 0.5, 0, 0.5])
    np.testing.assert_allclose(shares(epsilon=0.4), [0.1, 0.4, 0.1, 0.4])
    weights = np.exp(VALUES[0] / 2)
    np.testing.assert_allclose(shares(temperature=2.0), weights / weights.sum(), rtol=1e-6)


def test_epsilon_greedy_plays_the_policy_else():
    spec = EnvSpec(EnvFacts(), ("a",), {"a": spaces.Discrete(2)}, {"a": spaces.Discrete(4)})
    turn = Turn({"a": 1}, {"a": MASK}, {}, {}, {}, {}, {})
    inner = TabularPolicyController(VALUES, int, int)
    np.testing.assert_allclose(frequencies(EpsilonGreedyController(inner, spec, 0.0), turn), [0, 0, 1, 0])
    found = frequencies(EpsilonGreedyController(inner, spec, 0.6), turn)
    np.testing.assert_allclose(found, [0.2, 0, 0.6, 0.2], atol=0.04)


def test_a_table_draws_as_it_explored():
    epsilon = {"exploration": "epsilon_greedy", "epsilon": 0.2, "temperature": 1.0}
    assert drawing(epsilon, None) == {}
    assert drawing(epsilon, Sampling()) == {"epsilon": 0.2}
    assert drawing(epsilon, Sampling(0.5)) == {"temperature": 0.5}
    assert drawing({**epsilon, "exploration": "softmax"}, Sampling()) == {"temperature": 1.0}
    with pytest.raises(InputError, match=r"by visit counts \(ucb\)\. Type temperature=T"):
        drawing({**epsilon, "exploration": "ucb"}, Sampling())
    with pytest.raises(InputError, match=r"does not say how it explored\. Type temperature=T"):
        drawing({}, Sampling())


@pytest.mark.parametrize(
    ("worker", "params", "env"),
    [
        ("tabular", {}, "gym/FrozenLake-v1"),
        ("tabular", {"table": "hashed"}, "gym/FrozenLake-v1"),
        ("native", {}, "gym/CartPole-v1"),
        ("native", {"engine": "torch"}, "gym/CartPole-v1"),
        ("native dqn", {}, "gym/CartPole-v1"),
    ],
)
def test_a_finished_run_is_drawn_from(worker, params, env, tmp_path, monkeypatch):
    from mosaic import evaluate

    run = finished_run(tmp_path, monkeypatch, worker, params, env)
    saved = json.loads((run.checkpoints()[-1].path / "manifest.json").read_text())
    assert saved["spaces"]["agent_0"]["action"]["space"] == "Discrete"
    assert saved["policies"][next(iter(saved["policies"]))]["stochastic"] == (worker == "native")

    def played(options):
        result = evaluate(env, {"*": f"run:{run.id}{options}"}, episodes=20, seed=1).to_json()
        return [(each["length"], each["returns"]) for each in result["episode_results"]]

    assert played(",temperature=1e6") == played(",temperature=1e6") != played(",sample=false")
    assert played(",sample=false") == played("")
    played(",sample=true")
