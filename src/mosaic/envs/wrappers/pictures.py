"""Which spaces hold pictures."""

from __future__ import annotations

from typing import Any, TypeGuard

import numpy as np
from gymnasium.spaces import Box, Space


def is_picture(space: Space[Any]) -> TypeGuard[Box]:
    """A Box of uint8 or floats, shaped (height, width) or (height, width, channels)."""
    if not isinstance(space, Box) or not (space.dtype == np.uint8 or np.issubdtype(space.dtype, np.floating)):
        return False
    # three planes of 210×160 are a picture too, but not one whose last axis holds the channels
    channels_first = len(space.shape) == 3 and space.shape[0] <= 4 < space.shape[2]
    return len(space.shape) in (2, 3) and not channels_first
