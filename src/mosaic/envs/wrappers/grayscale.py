"""Wrapper that converts colour images to greyscale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.envs.env import Env
from mosaic.envs.wrappers.kind import WrapperKind
from mosaic.envs.wrappers.observation import View, Viewed, is_picture


class GrayscaleOptions(Options):
    keep_dim: bool = Field(True, description="Return (height, width, 1); otherwise (height, width).")


def grayed(options: GrayscaleOptions) -> Callable[[Space[Any]], View]:
    def view(space: Space[Any]) -> View:
        if not is_picture(space) or space.shape[2:] != (3,):
            raise InputError(
                "The wrapper 'grayscale' takes colour pictures: Box spaces of uint8 or floats shaped "
                "(height, width, 3). Put it before 'frame_stack'."
            )
        low, high = space.low.min(axis=2, keepdims=True), space.high.max(axis=2, keepdims=True)
        shape = low.shape if options.keep_dim else low.shape[:2]
        low, high = low.reshape(shape), high.reshape(shape)

        def see(observation: Any) -> NDArray[Any]:
            shades = luma(np.asarray(observation, dtype=space.dtype)).reshape(shape)
            return shades if shades.dtype == np.uint8 else np.clip(shades, low, high)  # the weights' sum is rounded

        return View(Box(low, high, dtype=low.dtype.type), see)

    return view


def luma(picture: NDArray[Any]) -> NDArray[Any]:
    """Compute brightness by ITU-R 601: 0.299 red, 0.587 green, 0.114 blue."""
    if picture.dtype == np.uint8:
        return np.array(Image.fromarray(np.ascontiguousarray(picture)).convert("L"))
    return picture[..., 0] * 0.299 + picture[..., 1] * 0.587 + picture[..., 2] * 0.114


def _make(env: Env, options: GrayscaleOptions) -> Viewed:
    return Viewed(env, grayed(options))


kind = WrapperKind(
    usage="grayscale[:keep_dim=true]",
    help="Converts colour pictures to shades of grey.",
    make=_make,
    options=GrayscaleOptions,
)
