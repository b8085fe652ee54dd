"""A corridor: the agent starts at the left end and is rewarded at the right one."""

from __future__ import annotations

from typing import Any

import gymnasium


class Corridor(gymnasium.Env[int, int]):
    def __init__(self, length: int = 5) -> None:
        self._length, self._position, self._steps = length, 0, 0
        self.observation_space = gymnasium.spaces.Discrete(length)
        self.action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._position, self._steps = 0, 0
        return self._position, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Walk to the left (0) or to the right (1)."""
        self._position = max(0, self._position + (1 if action else -1))
        self._steps += 1
        arrived = self._position == self._length - 1
        return self._position, 1.0 if arrived else -0.01, arrived, self._steps >= 20 * self._length, {}
