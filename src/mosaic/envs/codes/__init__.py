"""Members of spaces as whole numbers: the rows and columns of tables."""

from __future__ import annotations

from mosaic.envs.codes.bins import Bins, BinsGiven, Spelling, in_training, read_bins
from mosaic.envs.codes.build import space_code
from mosaic.envs.codes.code import MOST_STATES, SpaceCode
from mosaic.envs.codes.masks import flatten_mask

__all__ = [
    "MOST_STATES",
    "Bins",
    "BinsGiven",
    "SpaceCode",
    "Spelling",
    "flatten_mask",
    "in_training",
    "read_bins",
    "space_code",
]
