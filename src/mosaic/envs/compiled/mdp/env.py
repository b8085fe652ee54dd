"""Gymnasium env of an Mdp, so that it can be played, drawn and evaluated like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mosaic.envs.compiled.mdp.mdp import Mdp


class MdpEnv(gymnasium.Env[int, int]):
    """Env whose observations are states; masks are in info["action_mask"] if any apply.

    `draw(state)` renders the image.
    """

    def __init__(self, mdp: Mdp, draw: Callable[[int], NDArray[np.uint8]] | None = None) -> None:
        self.mdp = mdp
        states, actions = mdp.legal.shape
        self.observation_space = spaces.Discrete(states)
        self.action_space = spaces.Discrete(actions)
        self.metadata = {"render_modes": ["rgb_array"] if draw else [], "render_fps": 4}
        self.render_mode = "rgb_array" if draw else None
        self._draw = draw
        self._masked = not mdp.legal.all()
        self._state = self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state = int(self.mdp.start_state[self._drawn(self.mdp.start_threshold)])
        self._steps = 0
        return self._state, self._info()

    def step(self, action: int) -> tuple[int, SupportsFloat, bool, bool, dict[str, Any]]:
        mdp, state = self.mdp, self._state
        outcome = self._drawn(mdp.threshold[state, action])
        self._state = int(mdp.next_state[state, action, outcome])
        self._steps += 1
        reward = float(mdp.reward[state, action, outcome])
        terminated = bool(mdp.terminated[state, action, outcome])
        return self._state, reward, terminated, self._steps == mdp.time_limit, self._info()

    def render(self) -> Any:
        return None if self._draw is None else self._draw(self._state)

    def _drawn(self, threshold: NDArray[np.float64]) -> int:
        return int(np.argmax(threshold > self.np_random.random()))

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.mdp.legal[self._state].astype(np.int8)} if self._masked else {}
