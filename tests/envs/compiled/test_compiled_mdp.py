"""Gymnasium envs as arrays: step by step what the reference does."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.gym_table import compile_mdp
from mosaic.envs.compiled.mdp.mdp import Mdp, probabilities
from mosaic.envs.env import EnvFacts

ENVS = [
    ("gym/FrozenLake-v1", {}, 100),
    ("gym/FrozenLake-v1", {"is_slippery": False}, 100),
    ("gym/FrozenLake-v1", {"success_rate": 0.9, "reward_schedule": (5, -3, -0.25)}, 100),
    ("gym/FrozenLake-v1", {"success_rate": 1.0}, 100),
    ("gym/FrozenLake-v1", {"desc": generate_random_map(size=11, seed=4)}, 100),
    ("gym/FrozenLake-v1", {"desc": ["SFS", "HFG"], "max_episode_steps": 7}, 7),
    ("gym/FrozenLake8x8-v1", {}, 200),
    ("gym/CliffWalking-v1", {}, 0),
    ("gym/CliffWalkingSlippery-v1", {}, 0),
    ("gym/Taxi-v3", {}, 200),
    ("gym/Taxi-v3", {"is_rainy": True}, 200),
]
WALK = 12_000


def test_the_walks_are_long_enough():
    assert WALK * len(ENVS) >= 10**5


@pytest.mark.parametrize(("env_id", "options", "time_limit"), ENVS)
def test_every_action_in_every_state_has_the_outcomes_of_the_reference(env_id, options, time_limit):
    env = make_env(env_id, **options)
    mdp = compile_mdp(env)
    raw = env.env.unwrapped
    assert mdp.time_limit == time_limit
    assert all(array.flags.c_contiguous for array in mdp[:-1])
    assert [array.dtype.char for array in mdp[:-1]] == list("iddBidB")
    assert mdp.legal.all()
    shares = probabilities(mdp.threshold)
    for state, row in raw.P.items():
        for action, said in row.items():
            possible = np.flatnonzero(shares[state, action])
            columns = (mdp.next_state, mdp.reward, mdp.terminated)
            ours = [tuple(column[state, action, k] for column in columns) for k in possible]
            theirs = [outcome for outcome in said if outcome[0] > 0]
            assert ours == [tuple(outcome[1:]) for outcome in theirs]
            np.testing.assert_allclose(shares[state, action, possible], [each[0] for each in theirs], atol=1e-15)
    start = np.zeros(len(raw.P))
    start[mdp.start_state] = probabilities(mdp.start_threshold)
    np.testing.assert_allclose(start, raw.initial_state_distrib, atol=1e-15)


@pytest.mark.parametrize(("env_id", "options", "time_limit"), ENVS)
def test_the_same_chance_leads_the_same_way(env_id, options, time_limit):
    """Both draw from one generator's numbers, so whole walks are equal: states, rewards, ends and truncation."""
    env = make_env(env_id, **{**options, "render_mode": None})
    mdp = compile_mdp(env)
    actions = np.random.default_rng(3).integers(mdp.legal.shape[1], size=WALK).tolist()
    turn = env.reset(seed=11)
    chance = np.random.Generator(np.random.PCG64(11))
    state, steps = begin(mdp, chance), 0
    assert turn.observations[AGENT] == state
    seen = 0
    for action in actions:
        turn = env.step({AGENT: action})
        k = draw(mdp.threshold[state, action], chance)
        reward, terminated = mdp.reward[state, action, k], bool(mdp.terminated[state, action, k])
        state, steps = int(mdp.next_state[state, action, k]), steps + 1
        truncated = steps == mdp.time_limit
        observation = (turn.final_observations if turn.over else turn.observations)[AGENT]
        assert (observation, turn.rewards[AGENT], turn.terminated[AGENT]) == (state, reward, terminated)
        assert turn.truncated[AGENT] == truncated
        if turn.over:
            turn = env.reset()
            state, steps, seen = begin(mdp, chance), 0, seen + 1
            assert turn.observations[AGENT] == state
    assert seen > 0 or time_limit == 0


def begin(mdp, chance):
    return int(mdp.start_state[draw(mdp.start_threshold, chance)])


def draw(threshold, chance):
    return int(np.argmax(threshold > chance.random()))


def test_masks_are_law_only_where_asked_for():
    env = make_env("gym/Taxi-v3", info_masks=True)
    legal = compile_mdp(env).legal
    assert legal.shape == (500, 6)
    for state in range(500):
        assert legal[state].tolist() == env.env.unwrapped.action_mask(state).tolist()
    assert not legal.all()


@pytest.mark.parametrize(("wrapper", "limit"), [(30, 30), (500, 200)])
def test_the_shorter_time_limit_counts(wrapper, limit):
    config = EnvironmentConfig(env_id="gym/Taxi-v3", wrappers=(f"time_limit:max_steps={wrapper}",))
    assert compile_mdp(make_env(config)).time_limit == limit


class Tiny(gymnasium.Env):
    """Two states, one action."""

    def __init__(self, table, start=(1.0, 0.0), states=2):
        self.observation_space, self.action_space = spaces.Discrete(states), spaces.Discrete(1)
        self.P, self.initial_state_distrib = table, np.array(start)


GOOD = {0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(1.0, 1, 0.0, True)]}}


def own(raw):
    return GymnasiumEnv(raw, EnvFacts(EnvironmentConfig(env_id="python:tests:Tiny")))


def with_first(*outcomes):
    return own(Tiny({**GOOD, 0: {0: list(outcomes)}}))


def test_an_env_of_ones_own():
    mdp = compile_mdp(own(Tiny(GOOD)))
    assert isinstance(mdp, Mdp)
    assert mdp.threshold.tolist() == [[[2.0]], [[2.0]]]
    assert mdp.time_limit == 0


def test_an_impossible_last_outcome_is_never_drawn():
    third = 1 / 3
    on = (third, 0, 0.0, False)
    mdp = compile_mdp(with_first((third, 1, 1.0, True), on, on, (0.0, 1, 9.0, True)))
    assert mdp.threshold[0, 0, 2:].tolist() == [2.0, 2.0]
    assert np.argmax(mdp.threshold[0, 0] > np.nextafter(1, 0)) == 2


@pytest.mark.parametrize(
    ("env", "text"),
    [
        (
            with_first((1.0, 1, float("nan"), True)),
            "action 0 in state 0 has the reward nan. Rewards must be finite numbers.",
        ),
        (with_first((1.0, 1, float("inf"), True)), "has the reward inf. Rewards must be finite"),
        (with_first((0.5, 1, 0.0, True)), r"state 0 has outcomes of probability \[0.5\]; they must sum to 1"),
        (with_first((1.5, 1, 0.0, True), (-0.5, 0, 0.0, True)), "they must sum to 1"),
        (with_first((float("nan"), 1, 0.0, True)), "they must sum to 1"),
        (with_first(), r"probability \[\]"),
        (with_first((1.0, 2, 0.0, True)), r"leads to state 2, but there are only 0\.\.1"),
        (with_first((1.0, 1, 0.0)), r"is not 2 states × 1 actions × \[\(probability"),
        (own(Tiny(GOOD, states=3)), "is not 3 states × 1 actions"),
        (own(Tiny(GOOD, start=(0.5, 0.0))), "start distribution must hold 2 probabilities that sum to 1"),
        (own(Tiny(GOOD, start=(1.0,))), "start distribution must hold 2 probabilities"),
        (own(gymnasium.wrappers.TransformReward(Tiny(GOOD), lambda r: -r)), "is wrapped in TransformReward"),
        (make_env("gym/CartPole-v1"), "gym/CartPole-v1 has no transition table `P`.*enumerate_mdp"),
        (make_env("gym/Taxi-v3", fickle_passenger=True), "fickle_passenger has hidden state"),
        (make_env("gym/FrozenLake-v1", info_masks=True), "has no method action_mask.*Leave out info_masks"),
        (make_env("classic/tictactoe_v3"), "is a AECAdapter, not a bare Gymnasium env"),
        (
            make_env(EnvironmentConfig(env_id="gym/Taxi-v3", wrappers=("clip_reward",))),
            "Leave out wrappers other than time_limit",
        ),
    ],
)
def test_what_cannot_be_compiled(env, text):
    with pytest.raises(InputError, match=text):
        compile_mdp(env)


def test_too_large_says_how_large():
    with pytest.raises(InputError, match=r"gym/Taxi-v3 has 500 states × 6 actions × 1 outcomes: 66,000 bytes.*hashed"):
        compile_mdp(make_env("gym/Taxi-v3"), memory_limit=65_999)
    compile_mdp(make_env("gym/Taxi-v3"), memory_limit=66_000)


def test_too_large_is_said_before_anything_is_read():
    class Untouchable:
        def __getitem__(self, state):
            raise AssertionError("the table was read")

    with pytest.raises(
        InputError, match=r"1,000,000,000,000 states × 1 actions × 1 outcomes: 22,000,000,000,000 bytes"
    ):
        compile_mdp(own(Tiny(Untouchable(), states=10**12)))
