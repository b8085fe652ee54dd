"""An environment of one's own, as any Gymnasium user would write it.

mosaic check python:examples.envs:Corridor
mosaic evaluate python:examples.envs:Corridor --agent '*=random' --set environment.options.length=6
"""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium import spaces


class Corridor(gymnasium.Env[int, int]):
    """Walk right to the end; every step costs 0.1 and the goal pays 1."""

    def __init__(self, length: int = 4) -> None:
        self.length = length
        self.observation_space = spaces.Discrete(length)
        self.action_space = spaces.Discrete(2)
        self._place = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = int(self.np_random.integers(self.length - 1))
        return self._place, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self._place = min(self.length - 1, max(0, self._place + (1 if action else -1)))
        arrived = self._place == self.length - 1
        return self._place, 1.0 if arrived else -0.1, arrived, False, {}
