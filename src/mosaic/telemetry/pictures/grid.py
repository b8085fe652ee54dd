"""How several pictures become one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mosaic.core.errors import InputError
from mosaic.telemetry.pictures.resize import Picture, as_rgb, fitted

_GAP = 2  # pixels
_GROUND = 40


def tiled(pictures: Sequence[Picture]) -> Picture:
    """Row by row, near a square of cells, each as large as the largest picture."""
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
