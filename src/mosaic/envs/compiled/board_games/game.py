"""A two-agent game of strict alternation as arrays, seen by the mover."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Game(NamedTuple):
    """C-contiguous arrays that go straight into numba: S positions, A actions, zero-sum, no chance.

    What stands at an action that is not legal means nothing.
    """

    next_state: NDArray[np.int32]  # [S, A] the position as the next mover sees it, the final one too
    reward: NDArray[np.float32]  # [S, A] to the mover; the other gets its negative
    over: NDArray[np.uint8]  # [S, A] the action ends the game
    legal: NDArray[np.uint8]  # [S, A] all 0 where the game is over
    start: int
