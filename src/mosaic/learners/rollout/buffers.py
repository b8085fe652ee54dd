"""Rollout buffer of envs that Python steps, and its memory use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.layout import VectorShape
from mosaic.models.packed_rows import FLOAT_BYTES, RowPacking, Rows, row_bytes, zero_rows

_NUMBERS = 12  # float32 per row besides observations: action, value, advantage and the like; an upper bound


class Rollout(NamedTuple):
    """Rows of experience, as `Experience` describes them."""

    obs: Rows
    critic_obs: Rows
    mask: NDArray[np.uint8]
    act: NDArray[np.float32]
    logp: NDArray[np.float32]
    val: NDArray[np.float32]
    adv: NDArray[np.float32]
    ret: NDArray[np.float32]


def make_rollout(shape: VectorShape, steps: int, critic: int, packing: RowPacking | None) -> Rollout:
    """Allocate a rollout with a centralised critic's row of width `critic` (0: none) and packed observations."""
    rows = steps * shape.slots
    joined = packing.repeated(critic // packing.width) if packing and critic else None
    return Rollout(
        obs=zero_rows(rows, shape.width, packing),
        critic_obs=zero_rows(rows, critic, joined),
        mask=np.ones((rows, shape.mask_width) if shape.masked else (0, 0), np.uint8),
        act=np.zeros((rows, shape.parts), np.float32),
        logp=np.zeros(rows, np.float32),
        val=np.zeros(rows, np.float32),
        adv=np.zeros(rows, np.float32),
        ret=np.zeros(rows, np.float32),
    )


def rollout_bytes(
    steps: int, slots: int, agents: int, width: int, packing: RowPacking | None, *, central: bool, batch_size: int
) -> int:
    """Return the bytes of a rollout: its rows, the envs' newest observations, and one minibatch as float32.

    With a centralised critic every row also holds the observations of all agents.
    """
    rows, views = steps * slots, 1 + (agents if central else 0)
    stored = rows * (views * row_bytes(width, packing) + FLOAT_BYTES * _NUMBERS)
    floats = slots * (1 + views) + min(batch_size, rows) * views
    return stored + floats * FLOAT_BYTES * width
