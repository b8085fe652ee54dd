"""Envs that are stepped in Python by several learners: shares are exact, tables merge, nothing is left behind."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.stepped import SteppedTraining
from mosaic.learners.tabular.training.twin import SteppedEnv
from mosaic.runtimes.processes import ProcessTraining

ENVS = """
import gymnasium
from gymnasium.spaces import Discrete

class Ring(gymnasium.Env):
    observation_space, action_space = Discrete(6), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        way = action if self.np_random.random() < 0.8 else 1 - action
        self.place = (self.place + (1 if way else -1)) % 6
        return self.place, float(self.place == 3), self.place == 3, False, {}

class Broken(Ring):
    def step(self, action):
        return 9, 0.0, False, False, {}
"""
OPTIONS = TabularOptions(epsilon=0.3, epsilon_schedule="constant")


@pytest.fixture
def stepped(tmp_path, monkeypatch):
    (tmp_path / "stepped_envs.py").write_text(ENVS)
    monkeypatch.syspath_prepend(str(tmp_path))

    def make(name="Ring"):
        config = EnvironmentConfig(env_id=f"python:stepped_envs:{name}")
        return SteppedEnv(config.model_dump_json(), np.ones((6, 2), np.uint8))

    return make


def test_two_processes_share_a_table_and_lose_no_step(stepped, tmp_path):
    training = ProcessTraining(stepped(), "q_learning", OPTIONS, 3, processes=2, merge_every=500)
    try:
        training.advance(6001)
        assert training.env_steps == training.agent_steps == 6001 == int(training.visits.sum())
        statistics = training.read_statistics()
        assert statistics.return_mean == 1.0
        assert statistics.td_error_mean > 0.0
        assert training.coverage > 0.8
        greedy = training.values.argmax(axis=1)
        assert (greedy[1:3] == 1).all()
        assert (greedy[4:6] == 0).all()
        training.save(tmp_path)
        values = training.values.copy()
    finally:
        training.close()
    assert not training._processes
    again = ProcessTraining(stepped(), "q_learning", OPTIONS, 3, processes=2, merge_every=500)
    try:
        again.restore(tmp_path, 6001)
        assert np.array_equal(again.values, values)
        again.advance(100, 0)
        assert again.env_steps == 6101
    finally:
        again.close()


def test_what_an_env_must_not_say_ends_the_training_with_its_reason(stepped):
    training = ProcessTraining(stepped("Broken"), "q_learning", OPTIONS, 3, processes=1, merge_every=500)
    try:
        with pytest.raises(InputError, match="The state 9 is outside the table"):
            training.advance(10)
    finally:
        training.close()


@pytest.mark.parametrize("algorithm", ["sarsa", "monte_carlo"])
def test_a_learner_that_took_over_goes_on_with_counts_and_chance_of_the_other(stepped, algorithm):
    first, other = (SteppedTraining(stepped(), algorithm, OPTIONS, 3) for _ in range(2))
    first.advance(300)
    tensors = {name: array.copy() for name, array in first.tensors().items()}
    other.load(tensors)
    assert (other.env_steps, other.episodes) == (300, first.episodes)
    assert np.array_equal(other.values, first.values)
    other.advance(50)
    assert other.env_steps == 350
    assert other.progress.counts[4] > tensors["counts"][4]  # decisions
