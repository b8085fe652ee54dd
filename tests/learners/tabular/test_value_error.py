"""The distance of a table to the truth: nought for the plan itself, less after learning, None where unknown."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.optimal import ValueGauge, game_values, sum_errors, true_values, value_iteration
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining

GAME = {"epsilon": 1.0, "epsilon_schedule": "constant", "learning_rate": 1.0, "discount_factor": 1.0}


def twin(env_id):
    return find_twin(EnvironmentConfig(env_id=env_id))


@pytest.mark.parametrize("env_id", ["gym/Taxi-v3", "gym/FrozenLake-v1", "gym/Blackjack-v1", "gym/CliffWalking-v1"])
def test_the_plan_itself_has_no_error(env_id):
    mdp = twin(env_id)
    plan = value_iteration(mdp, 0.9)
    total, states = sum_errors(plan.action_values, np.ones(mdp.legal.shape, np.int32), mdp.legal, true_values(mdp, 0.9))
    assert states == len(mdp.legal)
    assert total / states < 1e-4


def test_only_visited_states_and_legal_actions_count():
    game = twin("classic/tictactoe_v3")
    visits = np.zeros(game.legal.shape, np.int32)
    values = np.where(game.legal, 0.25, 9.0).astype(np.float32)
    assert sum_errors(values, visits, game.legal, game_values(game)[0]) == (0.0, 0)
    visits[game.start, 4] = 1
    assert sum_errors(values, visits, game.legal, game_values(game)[0]) == (0.25, 1)  # an empty board is a draw


def test_learning_brings_the_error_to_zero_in_a_game():
    training = TwinTraining(twin("classic/tictactoe_v3"), "q_learning", TabularOptions(**GAME), seed=1)
    gauge = ValueGauge(training, 1.0)
    assert gauge.error() is None
    training.advance(5_000)
    early = gauge.error()
    training.advance(3_000_000)
    assert gauge.error() < 0.01 < early


@pytest.mark.slow
def test_where_the_truth_is_unknown_nothing_is_said():
    game, cliff = twin("classic/tictactoe_v3"), twin("gym/CliffWalking-v1")
    assert true_values(game, 0.99) is None
    assert true_values(game, 1.0, "random") is None
    endless = cliff._replace(terminated=np.zeros_like(cliff.terminated))
    assert true_values(endless, 1.0) is None
    tall = cliff._replace(threshold=np.zeros((50_001, 4, 1)))
    assert true_values(tall, 0.99) is None
