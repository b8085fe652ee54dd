"""Compiled classic control: step by step, bit by bit what Gymnasium computes."""

from __future__ import annotations

import math

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.adapters.gymnasium import AGENT
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.classic_control.cartpole import _sine_and_cosine
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.vector.encoding import action_code, row_code
from tests.envs.compiled.lockstep import walk


def whole(raw, state):
    raw.state = state.copy()


def narrow(raw, state):
    raw.state = state.astype(np.float32)


def first_two(raw, state):
    raw.state = state[:2].copy()


def mostly(choose, actions):
    """From always `choose` in the first env to always at random in the last, so that all ways to end are seen."""

    def policy(rng, obs):
        chosen = choose(obs).astype(np.float32)
        at_random = rng.random(len(obs)) < np.linspace(0, 1, len(obs))
        return np.where(at_random, rng.integers(actions, size=len(obs)), chosen).astype(np.float32)[:, None]

    return policy


def balance(obs):
    return obs[:, 2] + 0.5 * obs[:, 3] + 0.05 * obs[:, 0] + 0.1 * obs[:, 1] > 0


def with_the_motion(obs):
    return 1 + np.sign(obs[:, 1])


def with_the_first_link(obs):
    return 1 - np.sign(obs[:, 4])


def swing(rng, obs):
    """Beyond the bounds as well: actions are clipped."""
    along = np.sign(obs[:, -1:]) * np.linspace(0, 1, len(obs))[:, None]
    return (along + rng.normal(size=(len(obs), 1)) * 1.5).astype(np.float32)


WALKS = [  # env, options, wrappers, policy, load, whether it can be terminated, truncated
    ("gym/CartPole-v1", {}, (), mostly(balance, 2), whole, True, True),
    ("gym/CartPole-v1", {"sutton_barto_reward": True}, ("time_limit:max_steps=60",), mostly(balance, 2), whole, 1, 1),
    ("gym/MountainCar-v0", {}, (), mostly(with_the_motion, 3), whole, True, True),
    ("gym/MountainCar-v0", {"goal_velocity": 0.03}, (), mostly(with_the_motion, 3), whole, True, True),
    ("gym/MountainCarContinuous-v0", {"max_episode_steps": 300}, (), swing, whole, True, True),
    ("gym/Acrobot-v1", {"max_episode_steps": 200}, (), mostly(with_the_first_link, 3), narrow, True, True),
    ("gym/Pendulum-v1", {}, (), swing, first_two, False, True),
    ("gym/Pendulum-v1", {"g": 9.81}, (), swing, first_two, False, True),
]
CLASSIC = sorted({env_id for env_id, *_ in WALKS})


def _walk(case, steps):
    env_id, options, wrappers, policy, load, terminates, truncates = case
    tally = walk(env_id, 20, steps, policy, load, options=options, wrappers=wrappers)
    assert (tally.terminated > 0, tally.truncated > 0) == (bool(terminates), bool(truncates))
    return tally.steps


@pytest.mark.parametrize("case", WALKS, ids=lambda case: f"{case[0]}{case[1] or ''}")
def test_a_short_walk_is_the_references(case):
    _walk(case, 505)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [pytest.param(1_500, marks=pytest.mark.chosen), 5_000])
@pytest.mark.parametrize("case", WALKS, ids=lambda case: f"{case[0]}{case[1] or ''}")
def test_a_long_walk_is_the_references(case, steps):
    assert _walk(case, steps) >= 20 * steps


@pytest.mark.parametrize("reach", [1e-9, 1e-3, 0.05, 0.126, 0.2, 0.3])
def test_a_sine_that_is_sure_is_the_c_librarys(reach):
    angles = np.random.default_rng(4).uniform(-reach, reach, 20_000)
    answers = [_sine_and_cosine(angle) for angle in angles]
    sure = [(angle, sine, cosine) for angle, (sine, cosine, certain) in zip(angles, answers, strict=True) if certain]
    assert len(sure) > 0.7 * len(angles)
    assert all((sine, cosine) == (math.sin(angle), math.cos(angle)) for angle, sine, cosine in sure)
    assert all(abs(angle) < 0.25 for angle, _, _ in sure)


def _config(env_id, **rest):
    return EnvironmentConfig(env_id=env_id, **rest)


@pytest.mark.parametrize("env_id", CLASSIC)
def test_rows_and_heads_are_those_of_the_reference(env_id):
    env, kernel = make_env(env_id), find_kernel(_config(env_id))
    assert kernel.widths == (row_code(env.observation_spaces[AGENT]).width,)
    assert kernel.heads == (action_code(env.action_spaces[AGENT]).head,)
    assert (kernel.agents, kernel.turn_based, kernel.masked) == ((AGENT,), False, False)
    env.close()


STARTS = {
    "gym/CartPole-v1": ([-0.05] * 4, [0.05] * 4),
    "gym/MountainCar-v0": ([-0.6, 0], [-0.4, 0]),
    "gym/MountainCarContinuous-v0": ([-0.6, 0], [-0.4, 0]),
    "gym/Acrobot-v1": ([-0.1] * 4, [0.1] * 4),
    "gym/Pendulum-v1": ([-np.pi, -1], [np.pi, 1]),
}


@pytest.mark.parametrize("env_id", CLASSIC)
def test_episodes_start_all_over_the_references_range(env_id):
    vector = make_compiled_vector(_config(env_id), 4_000)
    vector.reset(3)
    low, high = (np.array(bound) for bound in STARTS[env_id])
    starts = vector.state[:, : len(low)]
    assert ((starts >= low - 1e-8) & (starts <= high + 1e-8)).all()
    np.testing.assert_allclose(starts.mean(axis=0), (low + high) / 2, atol=0.05 * (high - low).max())
    np.testing.assert_allclose(starts.std(axis=0), (high - low) / np.sqrt(12), rtol=0.05)
    env = make_env(env_id)
    theirs = np.array([env.reset(seed=seed).observations[AGENT] for seed in range(50)])
    assert (np.abs(theirs) <= np.abs(vector.obs).max(axis=0) * 1.01 + 1e-8).all()
    env.close()


@pytest.mark.parametrize("env_id", CLASSIC)
def test_the_picture_is_the_references_and_changes(env_id):
    vector, env = make_compiled_vector(_config(env_id), 3), make_env(env_id)
    vector.reset(5)
    env.reset(seed=0)
    before = vector.render(1)
    env.env.unwrapped.state = vector.state[1].copy()[: 2 if "Pendulum" in env_id else None]
    assert (before.dtype, before.ndim) == (np.uint8, 3)
    np.testing.assert_array_equal(before, env.render())
    assert (vector.render(2) != before).any()
    for _ in range(20):
        vector.step(np.ones((3, 1), np.float32))
    assert (vector.render(1) != before).any()
    vector.close()
    env.close()


@pytest.mark.parametrize("env_id", CLASSIC)
def test_seeds_tell_episodes_apart_and_repeat_them(env_id):
    def play(seed, envs):
        vector, seen = make_compiled_vector(_config(env_id), envs), []
        vector.reset(seed)
        for k in range(300):
            vector.step(np.full((envs, 1), k // 7 % 2, np.float32))
            seen.append(np.concatenate([vector.obs[:3].ravel(), vector.rew[:3]]))
        return np.array(seen)

    assert (play(1, 3) == play(1, 8)).all()  # neighbours change nothing
    assert (play(1, 3) != play(2, 3)).any()


def test_reset_forgets_what_was_paid_and_ended():
    vector = make_compiled_vector(_config("gym/CartPole-v1", wrappers=("time_limit:max_steps=1",)), 4)
    vector.reset(0)
    first = vector.obs.copy()
    vector.step(np.zeros((4, 1), np.float32))
    assert all(array.any() for array in (vector.trunc, vector.rew, vector.fin))
    vector.reset(0)
    assert not any(array.any() for array in (vector.trunc, vector.rew, vector.fin))
    np.testing.assert_array_equal(vector.obs, first)


@pytest.mark.parametrize("wrappers", [("clip_reward",), ("time_limit:max_steps=9", "flatten")])
def test_a_wrapper_that_changes_more_than_the_end_has_no_kernel(wrappers):
    config = _config("gym/CartPole-v1", wrappers=wrappers)
    make_env(config).close()
    assert find_kernel(config) is None
    assert make_compiled_vector(config, 2) is None


def test_other_envs_have_no_kernel():
    assert find_kernel(_config("gym/LunarLander-v3")) is None


def test_a_wrong_option_is_refused_as_by_the_env_itself():
    with pytest.raises(InputError, match="does not take these options"):
        find_kernel(_config("gym/CartPole-v1", options={"gravity": 3}))


def test_a_class_of_somebody_else_under_the_same_name_has_no_kernel():
    class Heavier(CartPoleEnv):
        pass

    gymnasium.register("CartPole-v77", entry_point=Heavier, max_episode_steps=9)
    try:
        assert find_kernel(_config("gym/CartPole-v77")) is None
    finally:
        del gymnasium.registry["CartPole-v77"]


@pytest.mark.parametrize(
    ("env_id", "options", "wrappers", "limit"),
    [
        ("gym/CartPole-v1", {}, (), 500),
        ("gym/CartPole", {"max_episode_steps": 33}, (), 33),
        ("gym/CartPole-v1", {"max_episode_steps": 33}, ("time_limit:max_steps=7", "time_limit:max_steps=9"), 7),
        ("gym/CartPole-v1", {"max_episode_steps": -1}, (), 0),
        ("gym/MountainCar-v0", {}, (), 200),
        ("gym/MountainCarContinuous-v0", {}, (), 999),
        ("gym/Acrobot-v1", {}, (), 500),
        ("gym/Pendulum-v1", {}, (), 200),
    ],
)
def test_time_limits_are_the_references(env_id, options, wrappers, limit):
    vector = make_compiled_vector(_config(env_id, options=options, wrappers=wrappers), 1)
    assert vector.kernel.facts[-1] == limit
    vector.reset(0)
    start = vector.state.copy()
    for step in range(1, 1_100):  # held still, so that only time can end it
        vector.state[:] = start
        vector.step(np.ones((1, 1), np.float32))
        assert bool(vector.trunc[0]) == (step == limit)
        if vector.trunc[0]:
            break
