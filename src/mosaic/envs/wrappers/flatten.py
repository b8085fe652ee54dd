"""Wrapper that flattens any observation to one row of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.envs.env import Env
from mosaic.envs.wrappers.kind import WrapperKind
from mosaic.envs.wrappers.observation import View, Viewed


def flattened(space: Space[Any]) -> View:
    """Flatten as Gymnasium does (Discrete: one-hot), in float32."""
    if not space.is_np_flattenable:
        raise InputError(
            "The wrapper 'flatten' takes observations of one fixed size: Box, Discrete, MultiDiscrete, MultiBinary, "
            "Text, and Dict, Tuple or OneOf of these."
        )
    flat = spaces.flatten_space(space)
    assert isinstance(flat, Box)  # guaranteed by is_np_flattenable

    def see(observation: Any) -> NDArray[np.float32]:
        return _single(spaces.flatten(space, observation))

    return View(Box(_single(flat.low), _single(flat.high), flat.shape, np.float32), see)


def _single(numbers: Any) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # values beyond float32 become infinity, in the bounds as in the observations
        return np.array(numbers, dtype=np.float32)


def _make(env: Env, options: Options) -> Viewed:
    return Viewed(env, flattened)


kind = WrapperKind(
    usage="flatten",
    help="Flattens any observation of fixed size into a float32 vector; actions are unchanged.",
    make=_make,
)
