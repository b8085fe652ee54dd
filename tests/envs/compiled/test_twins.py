"""Which env has which twin, and how its observations become states."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.mdp import GameTables, Mdp
from mosaic.envs.compiled.registry import encode_observation, find_twin
from mosaic.envs.families.mosaic import family


def config(env_id, *wrappers, **options):
    return EnvironmentConfig(env_id=env_id, wrappers=wrappers, options=options)


@pytest.mark.parametrize(
    ("asked", "kind", "states"),
    [
        (config("gym/FrozenLake-v1"), Mdp, 16),
        (config("gym/FrozenLake"), Mdp, 16),
        (config("gym/FrozenLake-v1", desc=["SG"]), Mdp, 2),
        (config("gym/FrozenLake8x8-v1"), Mdp, 64),
        (config("gym/CliffWalking-v1"), Mdp, 48),
        (config("gym/CliffWalkingSlippery-v1"), Mdp, 48),
        (config("gym/Taxi-v3", is_rainy=True), Mdp, 500),
        (config("gym/Blackjack-v1"), Mdp, 715),
        (config("gym/Blackjack-v1", sab=False), Mdp, 704),
        (config("gym/Blackjack-v1", natural=True), Mdp, 715),
        (config("mosaic/gridworld", map="S.G"), Mdp, 3),
        (config("mosaic/tictactoe", illegal="lost"), GameTables, 19_683),
        (config("classic/tictactoe_v3"), GameTables, 19_683),
    ],
)
def test_twins(asked, kind, states):
    twin = find_twin(asked)
    assert isinstance(twin, kind)
    assert twin.legal.shape[0] == states


@pytest.mark.parametrize(
    "asked",
    [
        config("gym/CartPole-v1"),
        config("classic/chess_v6"),
        config("python:math:sqrt"),
        config("gym/FrozenLake-v1", map_name=None),
        config("gym/Taxi-v3", fickle_passenger=True),
        config("gym/Taxi-v3", "clip_reward"),
        config("classic/tictactoe_v3", "time_limit:max_steps=3"),
    ],
)
def test_envs_without_a_twin(asked):
    assert find_twin(asked) is None


def test_the_options_of_the_env_are_the_twins():
    assert find_twin(config("mosaic/tictactoe", illegal="lost")).legal[1].all()
    assert not find_twin(config("mosaic/tictactoe")).legal[1].all()
    assert find_twin(config("mosaic/gridworld", map="S.G", slip=0.5, max_steps=3)).time_limit == 3


@pytest.mark.parametrize(
    ("env_id", "limit"), [("gym/CliffWalking-v1", 50), ("gym/Taxi-v3", 50), ("mosaic/gridworld", 50)]
)
def test_time_limits_of_wrappers(env_id, limit):
    assert find_twin(config(env_id, "time_limit:max_steps=50", "time_limit:max_steps=900")).time_limit == limit


def test_observations_of_the_reference_are_states_of_the_twin():
    assert encode_observation("gym/Taxi-v3", spaces.Discrete(500))(np.int64(7)) == 7
    env = make_env("gym/Blackjack-v1")
    encode = encode_observation("gym/Blackjack-v1", env.observation_spaces["agent_0"])
    twin = find_twin(config("gym/Blackjack-v1"))
    assert all(encode(env.reset(seed).observations["agent_0"]) in twin.start_state for seed in range(50))
    for board in (make_env("classic/tictactoe_v3"), family.make(config("mosaic/tictactoe"))):
        encode = encode_observation(board.spec.env_id, board.observation_spaces["player_1"])
        assert encode(board.reset().observations["player_1"]) == 0
        assert encode(board.step({"player_1": 2}).observations["player_2"]) == 2 * 3**2


@pytest.mark.parametrize(
    ("env_id", "space"),
    [
        ("gym/CartPole-v1", spaces.Box(0, 1, (4,))),
        ("classic/tictactoe_v3", spaces.Box(0, 1, (18,))),
        ("gym/Blackjack-v1", spaces.Box(0, 1, (3,))),
        ("python:own:Env", spaces.Discrete(5, start=1)),
    ],
)
def test_observations_that_are_no_states(env_id, space):
    with pytest.raises(
        InputError,
        match=rf"{env_id} has observations in .*, which are not states of a compiled twin. Twins: classic/",
    ):
        encode_observation(env_id, space)


def test_every_gymnasium_env_with_a_table_has_a_twin():
    toys = [name for name, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)]
    assert len(toys) == 6
    assert all(find_twin(config(f"gym/{name}")) is not None for name in toys)
