"""Resizing of pictures: grey to RGB, enlargement by whole factors, fitting into a given size, grids."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mosaic.core.errors import InputError

Picture: TypeAlias = NDArray[np.uint8]


def as_rgb(picture: Picture) -> Picture:
    """Return the picture as height × width × 3; grey gets three equal channels, an alpha channel is dropped."""
    if picture.dtype != np.uint8 or picture.ndim not in (2, 3) or 0 in picture.shape:
        raise InputError(
            f"This is not a picture: {picture.dtype} of shape {picture.shape}; expected uint8, height × width × 3."
        )
    if picture.ndim == 2:
        return np.repeat(picture[:, :, None], 3, axis=2)
    if picture.shape[2] == 1:
        return np.repeat(picture, 3, axis=2)
    if picture.shape[2] not in (3, 4):
        raise InputError(f"A picture has 1, 3 or 4 channels; this one has {picture.shape[2]}.")
    return np.ascontiguousarray(picture[:, :, :3])


def enlarged(picture: Picture, least_width: int) -> Picture:
    """Enlarge by a whole factor, so that pixels stay sharp squares; do nothing where it is wide enough."""
    factor = math.ceil(least_width / picture.shape[1])
    return picture if factor <= 1 else picture.repeat(factor, axis=0).repeat(factor, axis=1)


def fitted(picture: Picture, width: int, height: int) -> Picture:
    """Fit an RGB picture on black into exactly this size, keeping its proportions."""
    if picture.shape[:2] == (height, width):
        return picture
    canvas = np.zeros((height, width, 3), np.uint8)
    if picture.shape[0] > height or picture.shape[1] > width:
        scale = min(width / picture.shape[1], height / picture.shape[0])
        size = max(1, round(picture.shape[1] * scale)), max(1, round(picture.shape[0] * scale))
        picture = np.asarray(Image.fromarray(picture).resize(size, Image.Resampling.BOX))
    top, left = (height - picture.shape[0]) // 2, (width - picture.shape[1]) // 2
    canvas[top : top + picture.shape[0], left : left + picture.shape[1]] = picture
    return canvas


_GAP = 2  # pixels
_GROUND = 40


def tiled(pictures: Sequence[Picture]) -> Picture:
    """Arrange pictures row by row in a nearly square grid; each cell is as large as the largest picture."""
    if not pictures:
        raise InputError("A grid needs at least one picture.")
    coloured = [as_rgb(picture) for picture in pictures]
    if len(coloured) == 1:
        return coloured[0]
    height = max(picture.shape[0] for picture in coloured)
    width = max(picture.shape[1] for picture in coloured)
    columns = math.ceil(math.sqrt(len(coloured)))
    rows = math.ceil(len(coloured) / columns)
    grid = np.full((rows * (height + _GAP) - _GAP, columns * (width + _GAP) - _GAP, 3), _GROUND, np.uint8)
    for index, picture in enumerate(coloured):
        row, column = divmod(index, columns)
        top, left = row * (height + _GAP), column * (width + _GAP)
        grid[top : top + height, left : left + width] = fitted(picture, width, height)
    return grid
