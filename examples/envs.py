"""An environment of one's own, as any Gymnasium user would write it.

mosaic check python:examples.envs:Corridor
mosaic evaluate python:examples.envs:Corridor --agent '*=random' --set environment.options.length=6
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

CELL = 40  # pixels


class Corridor(gymnasium.Env[int, int]):
    """Walk right to the end; every step costs 0.1 and the goal pays 1."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 4}  # noqa: RUF012 - Gymnasium's own form

    def __init__(self, length: int = 4, render_mode: str | None = None) -> None:
        self.length = length
        self.render_mode = render_mode
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

    def render(self) -> Any:
        """Draw a row of cells: the goal is green, the place of the agent is blue."""
        cells = np.full((CELL, self.length, CELL, 3), 230, np.uint8)
        cells[:, -1] = (120, 180, 120)
        cells[:, self._place] = (60, 90, 200)
        cells[:, :, -1] = 160  # a line between two cells
        return cells.reshape(CELL, self.length * CELL, 3)
