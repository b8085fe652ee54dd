"""Wrapper that stacks an agent's latest observations."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray
from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import Env
from mosaic.envs.transform import Transform
from mosaic.envs.wrappers.kind import WrapperKind
from mosaic.envs.wrappers.observation import each_agent, seen


class FrameStackOptions(Options):
    num: int = Field(4, ge=1, le=256, description="Number of observations to stack, the newest last.")


class FrameStack(Transform):
    """Wrapper that stacks each agent's own latest observations, oldest first; initially, its first one is repeated.

    A frame is what the agent observed on a turn of its own: in a turn-based game the others' turns add none.
    """

    def __init__(self, env: Env, num: int) -> None:
        super().__init__(env)
        self._num = num
        self._frames: dict[AgentID, deque[NDArray[Any]]] = {}
        self.observation_spaces = each_agent(env, lambda space: stacked_space(space, num))

    def reset(self, seed: int | None = None) -> Turn:
        self._frames.clear()
        return seen(self.env.reset(seed), self._see)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        turn = seen(self.env.step(actions), self._see)
        for agent in turn.final_observations:
            del self._frames[agent]
        return turn

    def _see(self, agent: AgentID, observation: Observation) -> NDArray[Any]:
        frame = np.asarray(observation, dtype=self.observation_spaces[agent].dtype)
        if agent not in self._frames:
            self._frames[agent] = deque([frame] * self._num, self._num)
        self._frames[agent].append(frame)
        return stack(tuple(self._frames[agent]))


def stack(frames: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """Stack (height, width, channels) along the channels; any other shape along a new first axis."""
    return np.concatenate(frames, axis=-1) if frames[0].ndim == 3 else np.stack(frames)


def stacked_space(space: Space[Any], num: int) -> Box:
    if not isinstance(space, Box):
        raise InputError("The wrapper 'frame_stack' takes Box observations. For other spaces, put 'flatten' before it.")
    low, high = stack([space.low] * num), stack([space.high] * num)
    return Box(low, high, dtype=low.dtype.type)


def _make(env: Env, options: FrameStackOptions) -> FrameStack:
    return FrameStack(env, options.num)


kind = WrapperKind(
    usage="frame_stack[:num=4]",
    help="Stacks each agent's last observations: pictures along their channels, others along a new first axis.",
    make=_make,
    options=FrameStackOptions,
)
