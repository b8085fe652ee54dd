"""Envs of three steps whose infos hold numbers."""

import gymnasium
import numpy as np
from gymnasium import spaces
from pettingzoo import ParallelEnv

STEPS = 3


def info_at(step, coins):
    """Return an info: of the numbers only those of the last step count."""
    if step < STEPS:
        return {"coins": 1000.0, "early": 1}
    return {
        "coins": np.float32(coins),
        "custom_metrics": {"gems": coins + 1},
        "won": True,
        "_hidden": 5,
        "TimeLimit.truncated": 1,
        "text": "x",
        "lost": float("nan"),
    }


class Coins(gymnasium.Env):
    """One agent; `many` adds so many further numbers."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Discrete(2)
    many = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return np.zeros(2, np.float32), {"coins": 1000.0}

    def step(self, action):
        self.steps += 1
        info = info_at(self.steps, 4) | {f"n{number}": number for number in range(self.many)}
        return np.zeros(2, np.float32), 1.0, self.steps == STEPS, False, info


class ManyCoins(Coins):
    many = 60


class Pair(ParallelEnv):
    """Two agents, one of which ends a step earlier and has other numbers."""

    def __init__(self):
        self.metadata = {"name": "pair"}
        self.possible_agents = ["left", "right"]

    def observation_space(self, agent):
        return spaces.Box(-1, 1, (2,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.agents, self.steps = list(self.possible_agents), 0
        return self._each(lambda _: np.zeros(2, np.float32)), self._each(lambda _: {})

    def step(self, actions):
        self.steps += 1
        ends = {"left": self.steps == STEPS - 1, "right": self.steps == STEPS}
        late = {"left": self.steps + 1, "right": self.steps}
        coins = {"left": 10, "right": 20}
        parts = (
            self._each(lambda _: np.zeros(2, np.float32)),
            self._each(lambda _: 1.0),
            self._each(ends.get),
            self._each(lambda _: False),
            self._each(lambda agent: info_at(late[agent], coins[agent])),
        )
        self.agents = [agent for agent in self.agents if not ends[agent]]
        return parts

    def _each(self, value):
        return {agent: value(agent) for agent in self.agents}
