"""Arrays of a two-player game with strictly alternating moves, from the mover's view."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class GameTables(NamedTuple):
    """C-contiguous arrays that numba takes directly: S positions, A actions, zero-sum, deterministic.

    Entries of illegal actions are meaningless.
    """

    next_state: NDArray[np.int32]  # [S, A] the position as the next mover sees it, the final one too
    reward: NDArray[np.float32]  # [S, A] to the mover; the other gets its negative
    over: NDArray[np.uint8]  # [S, A] 1 if the action ends the game
    legal: NDArray[np.uint8]  # [S, A] all 0 if the game is over
    start: int
