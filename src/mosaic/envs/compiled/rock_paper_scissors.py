"""Rock, paper, scissors and its longer forms as a table of payoffs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError


class RepeatedGame(NamedTuple):
    """Two agents choose together, zero-sum, for a number of rounds; then both are truncated.

    Each sees what the other chose in the round before, and A (one more than the last action) before the first.
    """

    payoff: NDArray[np.float32]  # [A, A] to the first agent for (its action, the other's); the other gets its negative
    rounds: int


def rock_paper_scissors(num_actions: int = 3, max_cycles: int = 15) -> RepeatedGame:
    """PettingZoo's rps_v2, with its options: the higher number wins where one is odd and one even, else the lower."""
    if num_actions < 3 or num_actions % 2 == 0:
        raise InputError(f"num_actions should be odd and at least 3 (got {num_actions}).")
    if max_cycles < 1:
        raise InputError(f"max_cycles should be at least 1 (got {max_cycles}).")
    mine, theirs = np.indices((num_actions, num_actions))
    higher = np.sign(mine - theirs)
    return RepeatedGame(np.where((mine + theirs) % 2, higher, -higher).astype(np.float32), max_cycles)
