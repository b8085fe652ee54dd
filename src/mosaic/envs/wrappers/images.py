"""Wrappers of images: resizing and conversion to greyscale."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray
from PIL import Image
from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.reference import Options
from mosaic.core.turn import Observation
from mosaic.envs.env import Env
from mosaic.envs.wrappers.observation import View, Viewed, is_picture
from mosaic.envs.wrappers.transform import WrapperKind

Pixels: TypeAlias = NDArray[np.number]
Filter = Literal["box", "bilinear"]
_FILTERS = {"box": Image.Resampling.BOX, "bilinear": Image.Resampling.BILINEAR}


class ResizeOptions(Options):
    width: int = Field(84, ge=1, le=4096, description="Width in pixels.")
    height: int = Field(84, ge=1, le=4096, description="Height in pixels.")
    filter: Filter = Field("box", description="box: the mean of the area that a pixel covers; bilinear: smoother.")


def resized(options: ResizeOptions) -> Callable[[Space[object]], View]:
    """Return the resizing view; floats are computed in float32 and returned in the space's own type."""
    size, filter_ = (options.width, options.height), _FILTERS[options.filter]

    def view(space: Space[object]) -> View:
        if not is_picture(space):
            raise InputError(
                "The wrapper 'resize' takes pictures: Box spaces of uint8 or floats shaped (height, width) or "
                "(height, width, channels)."
            )
        shape = (options.height, options.width, *space.shape[2:])
        # one pixel may mix any others, so all get the widest bounds of their channel
        low = np.broadcast_to(space.low.min(axis=(0, 1)), shape)
        high = np.broadcast_to(space.high.max(axis=(0, 1)), shape)
        whole = space.dtype == np.uint8

        def see(observation: Observation) -> NDArray[np.generic]:
            picture = np.asarray(observation, dtype=np.uint8 if whole else np.float32)
            small = resize(picture, size, filter_)
            return small if whole else np.clip(small, low, high).astype(space.dtype)  # means of equals are rounded

        return View(Box(low, high, dtype=low.dtype.type), see)

    return view


def resize(picture: NDArray[np.generic], size: tuple[int, int], filter_: Image.Resampling) -> NDArray[np.generic]:
    """Resize the image to this size (width, height), each channel by itself."""
    if picture.ndim == 2 or (picture.dtype == np.uint8 and picture.shape[2] == 3):
        return np.array(Image.fromarray(np.ascontiguousarray(picture)).resize(size, filter_))
    # Pillow would treat four channels as RGBA and weight the first three by the last
    return np.stack([resize(picture[..., channel], size, filter_) for channel in range(picture.shape[2])], axis=-1)


def _make_resize(env: Env, options: ResizeOptions) -> Viewed:
    return Viewed(env, resized(options))


RESIZE = WrapperKind(
    usage="resize[:width=84,height=84,filter=box|bilinear]",
    help="Resizes pictures.",
    make=_make_resize,
    options=ResizeOptions,
)


class GrayscaleOptions(Options):
    keep_dim: bool = Field(True, description="Return (height, width, 1); otherwise (height, width).")


def grayed(options: GrayscaleOptions) -> Callable[[Space[object]], View]:
    def view(space: Space[object]) -> View:
        if not is_picture(space) or space.shape[2:] != (3,):
            raise InputError(
                "The wrapper 'grayscale' takes colour pictures: Box spaces of uint8 or floats shaped "
                "(height, width, 3). Put it before 'frame_stack'."
            )
        low, high = space.low.min(axis=2, keepdims=True), space.high.max(axis=2, keepdims=True)
        shape = low.shape if options.keep_dim else low.shape[:2]
        low, high = low.reshape(shape), high.reshape(shape)

        def see(observation: Observation) -> Pixels:
            shades = luma(np.asarray(observation, dtype=space.dtype)).reshape(shape)
            return shades if shades.dtype == np.uint8 else np.clip(shades, low, high)  # the weights' sum is rounded

        return View(Box(low, high, dtype=low.dtype.type), see)

    return view


def luma(picture: Pixels) -> Pixels:
    """Compute brightness by ITU-R 601: 0.299 red, 0.587 green, 0.114 blue."""
    if picture.dtype == np.uint8:
        return np.array(Image.fromarray(np.ascontiguousarray(picture)).convert("L"))
    return picture[..., 0] * 0.299 + picture[..., 1] * 0.587 + picture[..., 2] * 0.114


def _make_grayscale(env: Env, options: GrayscaleOptions) -> Viewed:
    return Viewed(env, grayed(options))


GRAYSCALE = WrapperKind(
    usage="grayscale[:keep_dim=true]",
    help="Converts colour pictures to shades of grey.",
    make=_make_grayscale,
    options=GrayscaleOptions,
)
