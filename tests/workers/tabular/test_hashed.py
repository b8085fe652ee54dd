"""A saved hashed table in an agent's place: the best known move, and any legal one where nothing is known."""

import numpy as np
import pytest
from gymnasium import spaces
from safetensors.numpy import load_file

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.codes import space_code
from mosaic.envs.compiled.board_games.connect_four import key_of, read_position
from mosaic.learners.tabular.hashed.table import find_sorted
from mosaic.learners.tabular.hashed.training import FILE, HashedTraining
from mosaic.learners.tabular.options import TabularOptions
from mosaic.workers.tabular.policies import hashed_controller, in_hashed_table
from mosaic.workers.tabular.strategy import is_hashed

FOUR = "classic/connect_four_v3"


@pytest.fixture
def saved(tmp_path):
    training = HashedTraining("q_learning", TabularOptions(initial_value=0.25), seed=1)
    training.advance(500)
    empty = training.table.find(int(key_of(np.uint64(0), np.uint64(0))))
    training.table.rows.values[empty] = [0, 0, 0, 0, 0, 0.5, 0]
    training.save(tmp_path)
    return tmp_path


def test_it_plays_the_best_known_move_and_shows_its_value(saved):
    controller, env = hashed_controller(saved, space_code(spaces.Discrete(7)), {}), make_env(FOUR)
    turn = env.reset(seed=1)
    (agent,) = turn.observations
    assert {controller.act(turn)[agent] for _ in range(20)} == {5}
    explanation = controller.explain(turn)[agent]
    assert explanation.value == 0.5
    assert in_hashed_table(saved)
    env.close()


def test_where_nothing_is_known_it_plays_any_legal_move_by_its_seed(saved):
    controller, env = hashed_controller(saved, space_code(spaces.Discrete(7)), {}), make_env(FOUR)
    turn = env.reset(seed=1)
    for column in [0, 0, 0, 0, 0, 0, 6, 6, 6]:  # the first column is full: rarely met in 500 moves
        (agent,) = turn.observations
        turn = env.step({agent: column})
    (agent,) = turn.observations
    key = int(key_of(*read_position(turn.observations[agent])))
    assert find_sorted(load_file(saved / FILE)["keys"], key) is None
    assert controller.explain(turn)[agent].value == 0.25
    moves = []
    for _ in range(2):
        controller.begin((agent,), 3)
        moves.append([controller.act(turn)[agent] for _ in range(200)])
    assert moves[0] == moves[1]
    assert set(moves[0]) == {1, 2, 3, 4, 5, 6}
    env.close()


def test_only_the_plain_game_is_learned_so():
    assert is_hashed(EnvironmentConfig(env_id=FOUR))
    assert not is_hashed(EnvironmentConfig(env_id=FOUR, wrappers=("time_limit:max_steps=10",)))
    assert not is_hashed(EnvironmentConfig(env_id="classic/tictactoe_v3"))
