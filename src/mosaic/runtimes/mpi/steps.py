"""Budget of steps, granted to learners in pieces.

Pieces are granted as learners ask for them, large ones first and small ones towards the end, so that no learner waits
long for the slowest. The unused part of a grant is returned to the budget: every step and every episode is taken once,
and none is dropped.
"""

from __future__ import annotations

from typing import NamedTuple

from mosaic.core.errors import MosaicError

SMALLEST_PIECE = 100_000  # steps, a few milliseconds: for fewer, messages would cost more than the work
_PIECES_AHEAD = 4  # the remainder is cut into this many pieces per learner


class Grant(NamedTuple):
    """Piece of work that ends with its steps or its episodes, whichever are done first."""

    steps: int
    episodes: int  # additional ones; 0: no limit


class Budget:
    """Budget of one order: N agent steps or N episodes (0: no limit), whichever are done first."""

    def __init__(self, steps: int, episodes: int, learners: int, largest_piece: int) -> None:
        self._steps, self._episodes = steps, episodes
        self._by_episodes = episodes > 0
        self._parts, self._largest = _PIECES_AHEAD * learners, largest_piece
        self._granted: list[Grant] = []

    @property
    def done(self) -> bool:
        """Return whether nothing is left and no grant is outstanding."""
        return not self._granted and not self._left

    @property
    def _left(self) -> bool:
        return self._steps > 0 and (self._episodes > 0 or not self._by_episodes)

    def grant(self) -> Grant | None:
        """Return the next piece, or None if there is nothing to grant, for now or for good."""
        if not self._left:
            return None
        piece = max(SMALLEST_PIECE, -(-self._steps // self._parts))
        given = Grant(min(piece, self._largest, self._steps), -(-self._episodes // self._parts))
        self._steps -= given.steps
        self._episodes -= given.episodes
        self._granted.append(given)
        return given

    def settle(self, given: Grant, steps: int, episodes: int) -> None:
        """Record the result of a grant and take back what it left unused."""
        ended_by_episodes = self._by_episodes and episodes == given.episodes
        too_many = steps > given.steps or (self._by_episodes and episodes > given.episodes)
        if too_many or (steps < given.steps and not ended_by_episodes):
            raise MosaicError(
                f"A learner took {steps:,} of {given.steps:,} steps and ended {episodes:,} of {given.episodes:,} "
                "episodes: the counts do not match."
            )
        self._granted.remove(given)
        self._steps += given.steps - steps
        if self._by_episodes:
            self._episodes += given.episodes - episodes
