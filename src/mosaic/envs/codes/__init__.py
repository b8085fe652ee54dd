"""Encodings of space members as whole numbers, for the rows and columns of tables."""

from __future__ import annotations

from mosaic.envs.codes.box import Bins, BinsGiven, Spelling, in_training, read_bins
from mosaic.envs.codes.masks import draw_legal, flatten_mask, forbidden_part, join_mask
from mosaic.envs.codes.nested import space_code
from mosaic.envs.codes.space_code import MOST_STATES, SpaceCode

__all__ = [
    "MOST_STATES",
    "Bins",
    "BinsGiven",
    "SpaceCode",
    "Spelling",
    "draw_legal",
    "flatten_mask",
    "forbidden_part",
    "in_training",
    "join_mask",
    "read_bins",
    "space_code",
]
