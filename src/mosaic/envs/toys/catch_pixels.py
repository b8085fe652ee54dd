"""Catch a falling ball, observed as pixels: a minimal env for networks with image input."""

from __future__ import annotations

from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

_SKY, _BALL, _PADDLE = (15, 23, 42), (249, 115, 22), (56, 189, 248)
_REACH = 1  # pixels of the paddle left and right of its middle
_SCREEN = 320  # pixels of the rendered image


class CatchPixels(gymnasium.Env[Picture, int]):
    """Env of a ball that falls one pixel per step; actions move the paddle left, not at all, or right.

    A caught ball pays 1, a missed one 0, so that the mean return is the share of balls caught. Every ball can be
    caught.
    """

    def __init__(self, size: int = 16) -> None:
        self.size = size
        self.observation_space = spaces.Box(0, 255, (size, size, 3), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 8}
        self.render_mode = "rgb_array"
        self._row = self._column = self._paddle = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Picture, dict[str, object]]:
        super().reset(seed=seed)
        self._row, self._column = 0, int(self.np_random.integers(self.size))
        self._paddle = self.size // 2
        return self._seen(), {}

    def step(self, action: int) -> tuple[Picture, SupportsFloat, bool, bool, dict[str, object]]:
        self._paddle = min(max(self._paddle + int(action) - 1, _REACH), self.size - 1 - _REACH)
        self._row += 1
        landed = self._row == self.size - 1
        caught = landed and abs(self._paddle - self._column) <= _REACH
        return self._seen(), float(caught), landed, False, {}

    def render(self) -> Any:
        from mosaic.envs.compiled.drawing import enlarge

        return enlarge(self._seen(), max(1, _SCREEN // self.size))

    def _seen(self) -> Picture:
        picture = np.empty((self.size, self.size, 3), np.uint8)
        picture[:] = _SKY
        picture[-1, self._paddle - _REACH : self._paddle + _REACH + 1] = _PADDLE
        picture[self._row, self._column] = _BALL
        return picture
