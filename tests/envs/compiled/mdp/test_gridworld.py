"""Grids drawn with letters, as arrays and as an env."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.gridworld import gridworld
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.envs.compiled.mdp.mdp import MdpEnv, enumerate_mdp, probabilities
from mosaic.envs.families.mosaic import family
from mosaic.testing import check_env

LEFT, DOWN, RIGHT, UP = range(4)


def own(**options):
    return family.make(EnvironmentConfig(family="mosaic", env_id="gridworld", options=options))


@pytest.mark.parametrize("success_rate", [1 / 3, 0.8, 1.0])
@pytest.mark.parametrize("desc", [("SFFF", "FHFH", "FFFH", "HFFG"), ("SFS", "HFG")])
def test_a_frozen_lake_is_a_gridworld(desc, success_rate):
    options = {"desc": list(desc), "success_rate": success_rate, "is_slippery": success_rate < 1}
    reference = compile_mdp(make_env("gym/FrozenLake-v1", **options))
    ours = gridworld(desc, slip=1 - success_rate, time_limit=100)
    np.testing.assert_allclose(ours.threshold, reference.threshold, atol=1e-15)
    np.testing.assert_allclose(ours.start_threshold, reference.start_threshold, atol=1e-15)
    for name in ("next_state", "reward", "terminated", "start_state", "legal"):
        assert (getattr(ours, name) == getattr(reference, name)).all(), name


def test_walls_stop_and_every_move_pays():
    mdp = gridworld("S#\n.G", step_reward=-0.1, goal_reward=2.0)
    assert mdp.next_state[0, :, 0].tolist() == [0, 2, 0, 0]
    assert mdp.reward[0, :, 0].tolist() == [-0.1] * 4
    assert (mdp.next_state[2, RIGHT, 0], mdp.reward[2, RIGHT, 0], mdp.terminated[2, RIGHT, 0]) == (3, 1.9, 1)


def test_slipping_goes_to_the_sides():
    mdp = gridworld("...\n.S.\n..G", slip=0.2)
    assert mdp.next_state[4, UP].tolist() == [5, 1, 3]
    np.testing.assert_allclose(probabilities(mdp.threshold)[4, UP], [0.1, 0.8, 0.1])


@given(st.lists(st.text("SGH#.", min_size=3, max_size=3), min_size=1, max_size=4), st.floats(0, 1))
def test_no_move_is_longer_than_a_step_and_none_enters_a_wall(rows, slip):
    rows = ["S..", *rows]
    mdp = gridworld(rows, slip=slip)
    walls = [state for state, letter in enumerate("".join(rows)) if letter == "#"]
    going = np.setdiff1d(np.arange(3 * len(rows)), walls)
    here, there = going[:, None, None], mdp.next_state[going]
    assert (abs(here // 3 - there // 3) + abs(here % 3 - there % 3) <= 1).all()
    assert not np.isin(there, walls).any()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"text_map": ""}, "The map is empty. Letters: S start, G goal"),
        ({"text_map": "S.X"}, "Row 0 of the map, 'S.X', holds 'X'. Letters: S start"),
        ({"text_map": "S./.."[:4]}, r"Row 1 of the map, '\.', has 1 cells, but row 0 has 2"),
        ({"text_map": "..G"}, "The map has no start"),
        ({"text_map": "S.G", "slip": 1.5}, r"slip is a probability: it should be between 0 and 1 \(got 1.5\)"),
        ({"text_map": "S.G", "slip": float("nan")}, "slip is a probability"),
        ({"text_map": "S.G", "step_reward": float("nan")}, "has the reward nan. Rewards must be finite"),
    ],
)
def test_maps_that_are_refused(arguments, text):
    with pytest.raises(InputError, match=text):
        gridworld(**arguments)


@pytest.mark.parametrize("options", [{}, {"slip": 0.3}, {"map": "S.#/..G/SH.", "step_reward": -1, "max_steps": 9}])
def test_the_env_keeps_the_contract(options):
    report = check_env(lambda: own(**options))
    assert report.env_id == "mosaic/gridworld"
    assert report.picture is not None
    assert report.has_chance == bool(options)
    assert not report.masked


def test_the_env_is_its_mdp():
    env = own(slip=0.5, max_steps=7)
    mdp = compile_mdp(env)
    assert mdp.time_limit == 7
    turn, chance = env.reset(seed=2), np.random.Generator(np.random.PCG64(2))
    chance.random()
    state = turn.observations[AGENT]
    ends = 0
    for _ in range(200):
        turn = env.step({AGENT: DOWN})
        k = int(np.argmax(mdp.threshold[state, DOWN] > chance.random()))
        state = int(mdp.next_state[state, DOWN, k])
        assert (turn.final_observations if turn.over else turn.observations)[AGENT] == state
        if turn.over:
            turn, ends = env.reset(), ends + 1
            chance.random()
            state = turn.observations[AGENT]
    assert ends >= 200 // 7


def test_a_picture_shows_where_the_agent_is():
    env = own(map="S.")
    env.reset(seed=1)
    before = env.render()
    env.step({AGENT: RIGHT})
    after = env.render()
    assert before.shape == after.shape == (48, 96, 3)
    assert (before[24, 24] == after[24, 72]).all()
    assert (before[24, 24] != after[24, 24]).any()


def test_masks_of_an_mdp_reach_the_agent():
    mdp, _ = enumerate_mdp([0], lambda s, a: [(1.0, (s + 1) % 3, 1.0, s == 2)], 2, legal=lambda s: [True, s == 1])
    env = GymnasiumEnv(MdpEnv(mdp), info_masks=True)
    turn = env.reset(seed=1)
    assert turn.action_masks[AGENT].tolist() == [True, False]
    assert env.step({AGENT: 0}).action_masks[AGENT].tolist() == [True, True]
    assert env.render() is None


@pytest.mark.parametrize(
    ("config", "text"),
    [
        ({"env_id": "gridword"}, "There is no environment named 'mosaic/gridword'. Did you mean 'mosaic/gridworld'?"),
        (
            {"env_id": "gridworld", "options": {"slipp": 1}},
            "mosaic/gridworld: there is no option 'slipp'. Did you mean 'slip'",
        ),
        ({"env_id": "gridworld", "options": {"slip": 2}}, "slip: it should be at most 1"),
        ({"env_id": "gridworld", "api_type": "aec"}, "mosaic/gridworld has the api_type 'gym', not 'aec'"),
    ],
)
def test_what_the_family_refuses(config, text):
    with pytest.raises(InputError, match=text):
        family.make(EnvironmentConfig(family="mosaic", **config))
