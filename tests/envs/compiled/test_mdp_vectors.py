"""Tables walked by the thousand: with equal chance, step by step what the reference env does."""

from __future__ import annotations

import numpy as np
import pytest
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.mdp.blackjack import OBSERVATIONS, blackjack_mdp
from mosaic.envs.compiled.mdp.kernel import mdp_kernel
from mosaic.envs.compiled.mdp.mdp import MdpEnv, enumerate_mdp
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import CompiledVector, make_compiled_vector
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.tabular.random import draw, uniform
from tests.envs.compiled.lockstep import unwrapped

CONFIGS = [
    ("gym/FrozenLake-v1", {}, ()),
    ("gym/FrozenLake-v1", {"is_slippery": False, "max_episode_steps": 12}, ()),
    ("gym/FrozenLake-v1", {"success_rate": 0.9, "reward_schedule": (5, -3, -0.25)}, ("time_limit:max_steps=30",)),
    ("gym/FrozenLake-v1", {"desc": generate_random_map(size=11, seed=4)}, ()),
    ("gym/FrozenLake8x8-v1", {}, ()),
    ("gym/CliffWalking-v1", {}, ("time_limit:max_steps=90",)),
    ("gym/CliffWalkingSlippery-v1", {}, ("time_limit:max_steps=90",)),
    ("gym/Taxi-v3", {}, ()),
    ("gym/Taxi-v3", {"is_rainy": True}, ()),
    ("gym/Taxi-v3", {"info_masks": True}, ()),
    ("mosaic/gridworld", {}, ()),
    ("mosaic/gridworld", {"slip": 0.3, "step_reward": -0.1, "max_steps": 25}, ()),
]
ENVS, STEPS = 10, 840


class SameChance:
    """Gymnasium's generator, as far as tables ask it: the stream of one compiled env."""

    def __init__(self, key):
        self.key, self.count = int(key), 0

    def random(self):
        self.count += 1
        return uniform(draw(self.key, self.count))


def test_the_walks_are_long_enough():
    assert ENVS * STEPS * len(CONFIGS) >= 10**5


def _lock_step(vector, envs, steps):
    """Episode by episode, resets and their chance included. How many episodes were terminated, truncated."""
    code, action_of = row_code(envs[0].observation_spaces[AGENT]), action_code(envs[0].action_spaces[AGENT])
    assert (vector.shape.widths, vector.shape.heads) == ((code.width,), (action_of.head,))
    rng, ended, row = np.random.default_rng(0), np.zeros(2, int), np.zeros(code.width, np.float32)
    vector.reset(4)
    start = vector.rng - np.uint64(0x9E3779B97F4A7C15)  # one number was drawn for the start
    for env, key in zip(envs, start, strict=True):
        env.reset(seed=0)
        unwrapped(env).np_random = SameChance(key)
    turns = [env.reset() for env in envs]
    for _ in range(steps):
        for index, turn in enumerate(turns):
            code.write(turn.observations[AGENT], row)
            assert vector.obs[index].tobytes() == row.tobytes()
            if vector.shape.masked:
                assert (vector.mask[index] == turn.action_masks[AGENT]).all()
        weights = rng.random((len(envs), action_of.head.width))
        act = (weights * (vector.mask if vector.shape.masked else 1)).argmax(axis=1).astype(np.float32)[:, None]
        vector.step(act)
        for index, env in enumerate(envs):
            turn = env.step({AGENT: action_of.action(act[index])})
            ends = turn.terminated[AGENT], turn.truncated[AGENT]
            assert (vector.term[index], vector.trunc[index]) == ends
            assert vector.rew[index] == np.float32(turn.rewards[AGENT])
            if any(ends):
                ended += ends
                code.write(turn.final_observations[AGENT], row)
                assert vector.fin[index].tobytes() == row.tobytes()
                turn = env.reset()
            turns[index] = turn
    for env in envs:
        env.close()
    return ended


@pytest.mark.parametrize(("env_id", "options", "wrappers"), CONFIGS)
def test_a_walk_is_the_references(env_id, options, wrappers):
    config = EnvironmentConfig(env_id=env_id, options=options, wrappers=wrappers)
    vector = make_compiled_vector(config, ENVS)
    assert vector.shape.masked == ("info_masks" in options)
    terminated, truncated = _lock_step(vector, [make_env(config) for _ in range(ENVS)], STEPS)
    assert terminated + truncated > 0


@pytest.mark.parametrize("options", [{}, {"natural": True}, {"sab": True}])
def test_blackjack_walks_its_table_and_shows_what_the_reference_shows(options):
    """The reference draws single cards where the table draws outcomes, so the walk is compared with the table's env."""
    config = EnvironmentConfig(env_id="gym/Blackjack-v1", options={"sab": False, "natural": False, **options})
    mdp = blackjack_mdp(**options)
    space = make_env(config).observation_spaces[AGENT]
    kernel = find_kernel(config)
    np.testing.assert_array_equal(kernel.facts, mdp_kernel(mdp, space).facts)
    as_table = mdp_kernel(mdp, MdpEnv(mdp).observation_space)
    _lock_step(CompiledVector(as_table, ENVS), [GymnasiumEnv(MdpEnv(mdp)) for _ in range(ENVS)], STEPS)

    vector, code = CompiledVector(kernel, 500), row_code(space)
    assert kernel.widths == (code.width,)
    vector.reset(2)
    row = np.zeros(code.width, np.float32)
    for step in range(4):
        for shown, (state, *_) in zip(vector.obs, vector.ints, strict=True):
            natural_or_not = (21, state - OBSERVATIONS, 1)
            seen = natural_or_not if state >= OBSERVATIONS else (state // 22, state // 2 % 11, state % 2)
            code.write(seen, row)
            assert shown.tobytes() == row.tobytes()
        vector.step(np.full((500, 1), step < 3, np.float32))


def test_masks_are_those_of_the_table():
    def step(state, action):
        return [(0.5, (state + action) % 3, 1.0, False), (0.5, 0, 0.0, state == 2)]

    mdp, _ = enumerate_mdp([0, 1], step, 3, legal=lambda state: [True, True, state == 2], time_limit=5)
    env = GymnasiumEnv(MdpEnv(mdp), info_masks=True)
    kernel = mdp_kernel(mdp, env.observation_spaces[AGENT])
    assert kernel.masked
    ends = _lock_step(CompiledVector(kernel, 7), [GymnasiumEnv(MdpEnv(mdp), info_masks=True) for _ in range(7)], 200)
    assert (ends > 0).all()


@pytest.mark.parametrize(
    "env_id", ["gym/FrozenLake-v1", "gym/CliffWalking-v1", "gym/Taxi-v3", "gym/Blackjack-v1", "mosaic/gridworld"]
)
def test_the_picture_shows_the_state(env_id):
    vector = make_compiled_vector(EnvironmentConfig(env_id=env_id), 40)
    vector.reset(0)
    pictures = {}
    for action in range(3):
        for index in range(0, 40, 8):
            picture = vector.render(index)
            assert (picture.dtype, picture.ndim) == (np.uint8, 3)
            pictures[tuple(vector.obs[index])] = picture
        vector.step(np.full((40, 1), action % 2, np.float32))
    assert len(pictures) > 1
    assert len({picture.tobytes() for picture in pictures.values()}) > 1
    vector.close()


@pytest.mark.parametrize(
    ("env_id", "options", "wrappers"),
    [
        ("gym/Taxi-v3", {"fickle_passenger": True}, ()),
        ("gym/FrozenLake-v1", {"desc": None, "map_name": None}, ()),
        ("gym/FrozenLake-v1", {}, ("flatten",)),
    ],
)
def test_where_there_is_no_twin_there_is_no_kernel(env_id, options, wrappers):
    assert find_kernel(EnvironmentConfig(env_id=env_id, options=options, wrappers=wrappers)) is None
