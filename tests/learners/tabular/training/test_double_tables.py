"""A table for each agent: in tic-tac-toe no position belongs to both, so two tables learn what one does."""

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.compiled.board_games.tictactoe import cells_of
from mosaic.envs.compiled.mdp.mdp import GameTables
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.optimal import ValueGauge
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import TwinTraining, TwoTableTraining

OPTIONS = TabularOptions(epsilon=0.5, epsilon_schedule="constant", learning_rate=0.5, discount_factor=1.0)


def game():
    return find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))


def test_two_tables_together_are_the_shared_one_bit_for_bit():
    shared, two = TwinTraining(game(), "q_learning", OPTIONS, 7), TwoTableTraining(game(), "q_learning", OPTIONS, 7)
    for training in (shared, two):
        for steps in (1, 4, 99_995):  # left in the middle of a game
            training.advance(steps)
    stones = (cells_of(np.arange(len(two.values))) > 0).sum(axis=1)
    first = (stones % 2 == 0)[:, None]
    np.testing.assert_array_equal(np.where(first, two.values, two.values_second), shared.values)
    assert not two.visits[~first[:, 0]].any()
    assert not two.visits_second[first[:, 0]].any()
    assert two.coverage == shared.coverage
    assert two.read_statistics() == shared.read_statistics()
    assert ValueGauge(two, 1.0).error() == pytest.approx(ValueGauge(shared, 1.0).error())


def test_where_both_seats_meet_one_position_each_keeps_its_own_value():
    """A game of three moves in one position: whoever moves may end it, and wins then."""
    stay, end = 0, 1
    circle = GameTables(
        np.zeros((1, 2), np.int32),
        np.array([[0, 1]], np.float32),
        np.array([[stay, end]], np.uint8),
        np.ones((1, 2), np.uint8),
        0,
    )
    training = TwoTableTraining(circle, "q_learning", OPTIONS.model_copy(update={"learning_rate": 1.0}), 0)
    training.advance(2_000)
    np.testing.assert_array_equal(training.values, [[-1, 1]])
    np.testing.assert_array_equal(training.values_second, [[-1, 1]])
    assert int(training.visits.sum() + training.visits_second.sum()) == training.agent_steps == 2_000
    assert training.visits.sum() > training.visits_second.sum() > 0


def test_a_saved_pair_continues_bit_for_bit(tmp_path):
    whole, part = (TwoTableTraining(game(), "q_learning", OPTIONS, 5) for _ in range(2))
    whole.advance(20_000)
    part.advance(7_777)
    part.save(tmp_path)
    resumed = TwoTableTraining(game(), "q_learning", OPTIONS, 5)
    resumed.restore(tmp_path, 7_777)
    resumed.advance(20_000 - 7_777)
    for name, array in whole.tensors().items():
        np.testing.assert_array_equal(resumed.tensors()[name], array, err_msg=name)


def test_games_are_learned_with_q_learning():
    with pytest.raises(InputError, match="Games are trained with q_learning, not sarsa"):
        TwoTableTraining(game(), "sarsa", OPTIONS, 0)
