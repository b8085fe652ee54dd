"""What a rollout remembers besides the rows that are learned from: who sat where, what was paid, who ended."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.vector.layout import VectorShape


class Track(NamedTuple):
    """T steps of E envs with A agents and M slots (see envs/vector.py for the layout)."""

    who: NDArray[np.int64]  # [T+1, M] the agent that a slot shows
    active: NDArray[np.uint8]  # [T+1, M] whether it acted
    brain: NDArray[np.int64]  # [T, M] the policy that answered, by its number
    value: NDArray[np.float32]  # [T+1, M] what that policy thought the slot is worth
    reward: NDArray[np.float32]  # [T, E*A]
    ended: NDArray[np.uint8]  # [T, E*A] terminated or truncated
    bootstrap: NDArray[np.float32]  # [T, E*A] the value of the final observation where truncated, else 0
    first: NDArray[np.uint8]  # [T+1, M] the slot's agent sees its episode for the first time (nets with memory)


def make_track(shape: VectorShape, steps: int) -> Track:
    slots, rows = shape.slots, shape.rows
    return Track(
        who=np.zeros((steps + 1, slots), np.int64),
        active=np.ones((steps + 1, slots), np.uint8),
        brain=np.zeros((steps, slots), np.int64),
        value=np.zeros((steps + 1, slots), np.float32),
        reward=np.zeros((steps, rows), np.float32),
        ended=np.zeros((steps, rows), np.uint8),
        bootstrap=np.zeros((steps, rows), np.float32),
        first=np.ones((steps + 1, slots), np.uint8),
    )
