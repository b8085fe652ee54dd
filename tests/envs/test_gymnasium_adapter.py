"""Gymnasium's envs in our words."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.error import DependencyNotInstalled

from mosaic.core.errors import MissingExtraError
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from tests.envs.env_cases import turns


class Both(gymnasium.Env):
    """Falls in the very step in which its time is up; speaks numpy."""

    observation_space = spaces.Dict({"a": spaces.MultiDiscrete([3, 2])})
    action_space = spaces.MultiBinary(2)

    def reset(self, *, seed=None, options=None):
        return {"a": np.array([1, 1])}, {}

    def step(self, action):
        return {"a": np.array([2, 0])}, np.float32(1), np.bool_(True), np.bool_(True), {"why": "both"}


def test_time_limit_and_fall_in_the_same_step_stay_apart():
    env = GymnasiumEnv(Both())
    env.reset(0)
    turn = env.step({"agent_0": np.array([1, 0], np.int8)})
    assert turn.terminated == {"agent_0": True} == turn.truncated
    assert type(turn.terminated["agent_0"]) is bool
    assert type(turn.rewards["agent_0"]) is float
    assert turn.final_observations["agent_0"]["a"].tolist() == [2, 0]
    assert turn.infos == {"agent_0": {"why": "both"}}
    with pytest.raises(RuntimeError, match=r"after the end of the episode: call reset\(\) first"):
        env.step({"agent_0": np.array([1, 0], np.int8)})


def test_an_own_env_that_cannot_draw_is_refused_in_its_own_words():
    class Painter(Both):
        render_mode = "rgb_array"

        def render(self):
            raise DependencyNotInstalled("Type: apt install easel")

    env = GymnasiumEnv(Painter())
    env.reset(0)
    with pytest.raises(MissingExtraError, match="cannot be drawn: Type: apt install easel"):
        env.render()


def test_wrong_agents_are_refused():
    env = make_env("gym/CartPole-v1")
    env.reset(0)
    with pytest.raises(ValueError, match=r"Actions for \['agent_1'\], but \['agent_0'\] must act\."):
        env.step({"agent_1": 0})


def test_masks_in_infos_are_advice_unless_asked_for():
    free, bound = make_env("gym/Taxi-v3"), make_env("gym/Taxi-v3", info_masks=True)
    turn = free.reset(1)
    assert turn.action_masks == {}
    assert turn.infos["agent_0"]["action_mask"].shape == (6,)
    mask = bound.reset(1).action_masks["agent_0"]
    assert mask.dtype == np.bool_
    assert mask.tolist() == turn.infos["agent_0"]["action_mask"].astype(bool).tolist()
    returns = [sum(t.rewards["agent_0"] for t in turns(env, 1, 200)) for env in (free, bound)]
    assert returns[0] < -400 < returns[1]


def test_a_mask_in_the_observation_is_law():
    class Masked(gymnasium.Env):
        observation_space = spaces.Dict({"observation": spaces.Discrete(3), "action_mask": spaces.MultiBinary(2)})
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return {"observation": 1, "action_mask": np.array([0, 1], np.int8)}, {}

    env = GymnasiumEnv(Masked())
    turn = env.reset(0)
    assert turn.observations == {"agent_0": 1}
    assert turn.action_masks["agent_0"].tolist() == [False, True]
    assert env.observation_spaces["agent_0"] == spaces.Discrete(3)


def test_what_an_env_writes_into_later_is_copied():
    class OneArray(gymnasium.Env):
        observation_space = spaces.Box(0, 10, (2,), np.float32)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            self.array = np.zeros(2, np.float32)
            return self.array, {}

        def step(self, action):
            self.array += 1
            return self.array, 0.0, bool(self.array[0] == 3), False, {}

    seen = list(turns(GymnasiumEnv(OneArray()), 0, 9))
    assert [turn.observations["agent_0"][0] for turn in seen[:-1]] == [0, 1, 2]
    assert seen[-1].final_observations["agent_0"][0] == 3
    shared = list(turns(GymnasiumEnv(OneArray(), aliases=False), 0, 9))
    assert shared[0].observations["agent_0"][0] == 3  # so the copies above are needed


def test_an_env_that_cannot_draw_shows_nothing():
    env = GymnasiumEnv(Both())
    env.reset(0)
    assert env.render() is None
