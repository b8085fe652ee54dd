"""Conversion of an agent's observations and actions for RLlib."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from PIL import Image

from mosaic.core.errors import InputError
from mosaic.core.turn import Action, Observation
from mosaic.envs.vector.encoding import ActionCode, RowCode, action_code, row_code
from mosaic.envs.wrappers.resize import resize

PICTURE_SIZE = 64  # pixels; RLlib has default convolutions for 42, 64, 84 and 96


@dataclass(frozen=True, slots=True)
class AgentCode:
    """Conversion of one agent's spaces.

    RLlib reads float32 rows or square pictures of 0..1, and acts in Discrete, MultiDiscrete and flat Box spaces.
    """

    observation_space: spaces.Box
    action_space: Space[Any]
    read: Callable[[Observation], NDArray[np.float32]]  # a new array
    act: Callable[[Any], Action]  # converts RLlib's action to the env's
    choices: int  # entries of an action mask, over all parts of an action; 0 if actions are numbers

    @property
    def width(self) -> int:
        return int(np.prod(self.observation_space.shape))

    @property
    def is_picture(self) -> bool:
        return len(self.observation_space.shape) == 3


def agent_code(observation: Space[Any], action: Space[Any], picture_size: int = PICTURE_SIZE) -> AgentCode:
    acts = action_code(action)
    space, act = _actions(acts, action)
    seen, read = _observations(observation, picture_size)
    return AgentCode(seen, space, read, act, acts.head.width if acts.head.kind == "categorical" else 0)


def is_taken_as_is(observation: Space[Any], action: Space[Any]) -> bool:
    """Return whether RLlib can use these spaces unchanged, with the same result as `agent_code`."""
    rows = isinstance(observation, spaces.Box) and len(observation.shape) == 1 and observation.dtype == np.float32
    if isinstance(action, spaces.Discrete):
        return rows and action.start == 0
    return rows and isinstance(action, spaces.Box) and len(action.shape) == 1 and action.dtype == np.float32


def _observations(
    space: Space[Any], picture_size: int
) -> tuple[spaces.Box, Callable[[Observation], NDArray[np.float32]]]:
    code = row_code(space)
    if not any(part.picture for part in code.parts):
        return spaces.Box(-np.inf, np.inf, (code.width,), np.float32), _row_reader(code)
    if len(code.parts) > 1:
        raise InputError(
            f"RLlib's default networks read either a picture or numbers, but here is {space}. Show one of them, or use "
            "the worker 'native', which reads both."
        )
    shape = (picture_size, picture_size, code.parts[0].shape[2])
    return spaces.Box(0, 1, shape, np.float32), _picture_reader(picture_size)


def _row_reader(code: RowCode) -> Callable[[Observation], NDArray[np.float32]]:
    width, write = code.width, code.write

    def read(observation: Observation) -> NDArray[np.float32]:
        row = np.empty(width, np.float32)
        write(observation, row)
        return row

    return read


def _picture_reader(size: int) -> Callable[[Observation], NDArray[np.float32]]:
    def read(observation: Observation) -> NDArray[np.float32]:
        small = resize(np.asarray(observation, np.uint8), (size, size), Image.Resampling.BOX)
        picture: NDArray[np.float32] = np.divide(small, np.float32(255), dtype=np.float32)
        return picture

    return read


def _actions(code: ActionCode, space: Space[Any]) -> tuple[Space[Any], Callable[[Any], Action]]:
    head = code.head
    if head.kind == "gaussian":
        assert isinstance(space, spaces.Box)
        low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=np.float32), _from_row(code)
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return spaces.Discrete(head.width), (lambda action: int(action) + start)
    return spaces.MultiDiscrete(list(head.sizes)), _from_row(code)


def _from_row(code: ActionCode) -> Callable[[Any], Action]:
    return lambda action: code.action(np.asarray(action, np.float32))
