"""Wrapper that scales observations by the bounds of their space."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.envs.codes.box import UNBOUNDED
from mosaic.envs.env import Env
from mosaic.envs.wrappers.kind import WrapperKind
from mosaic.envs.wrappers.observation import View, Viewed


def normalised(space: Space[Any]) -> View:
    """Scale whole numbers and booleans to [0, 1], floats to [-1, 1], as float32.

    Observations outside the env's own bounds are clipped; where both bounds are equal, the result is 0.
    """
    if not isinstance(space, Box):
        raise InputError(
            "The wrapper 'normalise' scales Box observations by their bounds. For other spaces, "
            "put 'flatten' before it."
        )
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    is_float = np.issubdtype(space.dtype, np.floating)
    if is_float and max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)) >= UNBOUNDED:
        raise InputError(
            "The wrapper 'normalise' scales by the bounds of the space, and these are infinite here. Leave it out and "
            "let the learner normalise observations: it measures their mean and variance while it trains."
        )
    least = -1.0 if is_float else 0.0
    zero = (low + high) / 2 if is_float else low
    span = (high - low) / 2 if is_float else high - low
    one = np.where(span > 0, span, 1.0)
    if not is_float and space.low.itemsize <= 2:  # exact in float32, and images take half the time
        zero, one = zero.astype(np.float32), one.astype(np.float32)

    def see(observation: Any) -> NDArray[np.float32]:
        scaled: NDArray[Any] = np.clip((observation - zero) / one, least, 1.0)
        return scaled.astype(np.float32, copy=False)

    return View(Box(least, 1.0, space.shape, np.float32), see)


def _make(env: Env, options: Options) -> Viewed:
    return Viewed(env, normalised)


kind = WrapperKind(
    usage="normalise",
    help="Scales observations by the bounds of their space: whole numbers to [0, 1], floats to [-1, 1].",
    make=_make,
)
