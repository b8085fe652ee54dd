"""Hierarchical control: a manager sets goals, workers walk towards them, and each level learns a policy of its own.

The manager acts once in `period` steps and is paid for the result; the workers act in every step and are paid for
following the goal. Both are agents of one env, so nothing else is needed to train them together:

mosaic check python:examples.hierarchical:Treasure
mosaic train python:examples.hierarchical:Treasure --agent manager=manager --agent 'worker_*=walkers'
mosaic train python:examples.hierarchical:Treasure --worker rllib --agent manager=manager --agent 'worker_*=walkers'
mosaic evaluate python:examples.hierarchical:Treasure --agent manager=run:latest/manager --agent 'worker_*=random'
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pettingzoo import AECEnv

MANAGER = "manager"
_PIXELS = 24  # of a cell


class Treasure(AECEnv):  # type: ignore[misc]  # PettingZoo has no types
    """A row of cells with a hidden treasure, which moves at the end of each period.

    Only the manager knows where the treasure is. It names a cell, and gets the share of workers that stand on the
    treasure when the period is over. A worker sees its own cell and the goal; it gets 0.1 for a step towards the goal,
    or for waiting there, and loses 0.1 otherwise. A perfect manager with perfect workers gets `periods`.
    """

    metadata: ClassVar = {
        "name": "treasure_v0",
        "render_modes": ["rgb_array"],
        "is_parallelizable": False,
        "render_fps": 8,
    }

    def __init__(self, cells: int = 7, workers: int = 2, period: int = 6, periods: int = 4) -> None:
        super().__init__()
        self.cells, self.period, self.periods = cells, period, periods
        self.render_mode = "rgb_array"
        self._workers = [f"worker_{number}" for number in range(workers)]
        self.possible_agents = [MANAGER, *self._workers]
        self.agents: list[str] = []
        self._rng = np.random.default_rng()

    def observation_space(self, agent: str) -> spaces.Space[Any]:
        width = self.cells if agent == MANAGER else 2
        return spaces.Box(0.0, 1.0, (width,), np.float32)

    def action_space(self, agent: str) -> spaces.Space[Any]:
        return spaces.Discrete(self.cells if agent == MANAGER else 3)  # a cell; left, wait, right

    def observe(self, agent: str) -> NDArray[np.float32]:
        if agent == MANAGER:
            return np.array([cell == self._treasure for cell in range(self.cells)], np.float32)
        return np.array([self._places[agent] / (self.cells - 1), self._goal / (self.cells - 1)], np.float32)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._places = {worker: int(self._rng.integers(self.cells)) for worker in self._workers}
        self._treasure, self._goal, self._t = int(self._rng.integers(self.cells)), 0, 0
        self.agent_selection = MANAGER

    def step(self, action: int | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent]:
            self._was_dead_step(action)
            return
        assert action is not None
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        if agent == MANAGER:
            self._goal = int(action)
            self.agent_selection = self._workers[0]
            return
        self._walk(agent, int(action) - 1)
        if agent == self._workers[-1]:
            self._end_step()
        else:
            self.agent_selection = self._workers[self._workers.index(agent) + 1]
        self._accumulate_rewards()

    def _walk(self, worker: str, direction: int) -> None:
        before = self._places[worker]
        after = self._places[worker] = min(self.cells - 1, max(0, before + direction))
        follows = abs(after - self._goal) < abs(before - self._goal) or before == after == self._goal
        self.rewards[worker] = 0.1 if follows else -0.1

    def _end_step(self) -> None:
        self._t += 1
        self.agent_selection = self._workers[0]
        if self._t % self.period == 0:
            there = [place == self._treasure for place in self._places.values()]
            self.rewards[MANAGER] = sum(there) / len(there)
            self._treasure = int(self._rng.integers(self.cells))
            self.agent_selection = MANAGER
        if self._t == self.period * self.periods:
            self.terminations = dict.fromkeys(self.agents, True)

    def render(self) -> NDArray[np.uint8]:
        """Draw the treasure yellow, the goal green and the workers blue."""
        picture = np.full((3 * _PIXELS, self.cells * _PIXELS, 3), 240, np.uint8)
        marks = [(0, self._treasure, (230, 180, 0)), (1, self._goal, (60, 160, 80))]
        marks += [(2, place, (60, 90, 200)) for place in self._places.values()]
        for row, cell, colour in marks:
            picture[row * _PIXELS : (row + 1) * _PIXELS, cell * _PIXELS : (cell + 1) * _PIXELS] = colour
        return picture

    def close(self) -> None:
        """Release nothing: there is no window."""
