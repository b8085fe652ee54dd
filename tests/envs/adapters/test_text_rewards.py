"""Rewards that are text: Python reads "1" as a number, and no learner should."""

import gymnasium
import numpy as np
import pytest
from pettingzoo import ParallelEnv

import mosaic
from mosaic.core.errors import MosaicError
from mosaic.envs.contract.check import check_env
from mosaic.envs.contract.report import ContractError

SPACE = gymnasium.spaces.Discrete(2)


class Single(gymnasium.Env):
    observation_space = action_space = SPACE

    def __init__(self, reward):
        self.reward = reward

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return 1, self.reward, True, False, {}


class Together(ParallelEnv):
    metadata = {"name": "together"}  # noqa: RUF012 - PettingZoo's own form
    possible_agents = ("a", "b")

    def __init__(self, reward):
        self.reward = reward

    def observation_space(self, agent):
        return SPACE

    def action_space(self, agent):
        return SPACE

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions):
        gone, self.agents = self.agents, []
        ended, rest = dict.fromkeys(gone, True), dict.fromkeys(gone, False)
        return dict.fromkeys(gone, 1), dict.fromkeys(gone, self.reward), ended, rest, {agent: {} for agent in gone}


@pytest.mark.parametrize("make", [Single, Together])
@pytest.mark.parametrize("reward", ["1", b"1"])
def test_a_reward_that_is_text_is_refused(make, reward):
    with pytest.raises(
        ContractError, match=rf"step raised TypeError: the reward is b?'1', a {type(reward).__name__} and"
    ):
        check_env(lambda: mosaic.make_env(make(reward)), steps=20)
    with pytest.raises(MosaicError, match=r"failed in step 0 .*: TypeError: the reward is"):
        mosaic.evaluate(make(reward), {"*": "random"}, episodes=1)


@pytest.mark.parametrize("make", [Single, Together])
@pytest.mark.parametrize("reward", [1, 1.0, True, np.float32(1), np.array(1.0)])
def test_numbers_of_any_type_are_rewards(make, reward):
    assert set(mosaic.play_episode(make(reward), {"*": "random"}).returns.values()) == {1.0}
