"""How a plain Gymnasium env fills its rows, with nothing between."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.envs.vector.layout import VectorArrays


class GymLane:
    """The same numbers as through `GymnasiumEnv`, without its Turns."""

    def __init__(self, env: GymnasiumEnv, arrays: VectorArrays) -> None:
        self._step, self._reset = env.env.step, env.env.reset
        self._action = action_code(env.action_spaces[AGENT]).action
        self._write = row_code(env.observation_spaces[AGENT]).write
        self._row, self._final = arrays.obs[0], arrays.fin[0]
        self._arrays = arrays
        self._paid, self._active = arrays.rew, arrays.active
        self._seeds: Iterator[int] = iter(())

    def begin(self, seeds: Iterator[int]) -> None:
        self._seeds = seeds
        self._paid[0], self._active[0] = 0, 1
        self._write(self._reset(seed=next(seeds))[0], self._row)

    def step(self, act: NDArray[np.float32]) -> None:
        observation, reward, terminated, truncated, _ = self._step(self._action(act[0]))
        self._paid[0] = reward
        if terminated or truncated:
            observation = self._end(observation, terminated, truncated)
        self._write(observation, self._row)

    def _end(self, observation: Any, terminated: bool, truncated: bool) -> Any:
        self._arrays.term[0], self._arrays.trunc[0] = terminated, truncated
        if truncated:
            self._write(observation, self._final)
        return self._reset(seed=next(self._seeds))[0]
