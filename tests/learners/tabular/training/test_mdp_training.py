"""All algorithms and explorations on the arrays of an env: number for number what the learner does in the env."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.user import adapt
from mosaic.envs.compiled.mdp.mdp import MdpEnv, enumerate_mdp
from mosaic.envs.env import EnvFacts
from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.options import ALGORITHMS, EXPLORATIONS, TabularOptions
from mosaic.learners.tabular.training.mdp import COMPILED_ON_ARRAYS, MOST_TRAIL, MdpTraining, open_training
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runtimes.parallel import ParallelTraining

SIZE = 12


def corridor(time_limit=40):
    """Left, stay or right; the goal is at the right end."""

    def step(place, action):
        there = min(max(place + action - 1, 0), SIZE - 1)
        return [(1.0, there, 1.0 if there == SIZE - 1 else -0.01, there == SIZE - 1)]

    return enumerate_mdp([0], step, 3, time_limit=time_limit)[0]


def options_of(exploration="epsilon_greedy", **more):
    return TabularOptions(exploration=exploration, epsilon=0.3, temperature=0.2, n_step=3, dtype="float64", **more)


@pytest.mark.parametrize("exploration", EXPLORATIONS)
@pytest.mark.parametrize("algorithm", COMPILED_ON_ARRAYS)
def test_arrays_and_env_come_to_the_same_table(algorithm, exploration):
    mdp, options = corridor(), options_of(exploration, learning_rate_schedule="visits", learning_rate_min=0.1)
    training = MdpTraining(mdp, algorithm, options, 5)
    for part in (1, 2, 300, 1700):
        training.advance(part)
    learner = TabularLearner(SIZE, 3, algorithm, options, 5)
    env = adapt(MdpEnv(mdp), EnvFacts(EnvironmentConfig(env_id="python:tests:corridor")))
    statistics = learner.train(env, episodes=training.episodes)
    learner_steps = statistics.total_steps
    assert 2003 - 40 <= learner_steps <= 2003
    training = MdpTraining(mdp, algorithm, options, 5)
    training.advance(10**9, learner.episodes)
    assert training.env_steps == learner_steps
    assert np.array_equal(training.values, learner.values)
    assert np.array_equal(training.visits, learner.visits)


@pytest.mark.parametrize("algorithm", COMPILED_ON_ARRAYS)
def test_training_is_left_saved_and_resumed_in_mid_episode(tmp_path, algorithm):
    whole, first, resumed = (MdpTraining(corridor(0), algorithm, options_of(), 3) for _ in range(3))
    whole.advance(3000)
    first.advance(1234)
    first.save(tmp_path)
    resumed.restore(tmp_path, 1234)
    resumed.advance(3000 - 1234)
    assert all(np.array_equal(whole.tensors()[name], resumed.tensors()[name]) for name in whole.tensors())


@pytest.mark.parametrize("algorithm", COMPILED_ON_ARRAYS)
def test_several_learners_merge_and_find_the_way(algorithm):
    mdp = corridor()
    training = ParallelTraining(lambda n: open_training(mdp, algorithm, options_of(), 10 + n), 2, 500)
    training.advance(40_001)
    assert training.env_steps == 40_001
    greedy = training.values[: SIZE - 1].argmax(axis=1)
    assert (greedy == 2).all()


def test_the_fastest_loop_that_knows_the_algorithm_is_taken():
    mdp = corridor()
    assert type(open_training(mdp, "sarsa", options_of(), 0)) is TwinTraining
    assert type(open_training(mdp, "sarsa", options_of("ucb"), 0)) is MdpTraining
    assert type(open_training(mdp, "monte_carlo", options_of(), 0)) is MdpTraining
    assert set(ALGORITHMS) - set(COMPILED_ON_ARRAYS) == {"double_q_learning"}
    with pytest.raises(InputError, match="not double_q_learning"):
        open_training(mdp, "double_q_learning", options_of(), 0)


def test_an_episode_too_long_to_be_remembered_is_refused():
    endless = enumerate_mdp([0], lambda place, action: [(1.0, 0, 0.0, False)], 2)[0]
    training = MdpTraining(endless, "monte_carlo", options_of(), 0)
    with pytest.raises(InputError, match="looks back over more than"):
        training.advance(MOST_TRAIL + 5)
