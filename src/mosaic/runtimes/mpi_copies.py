"""How copies of a table that are learned on apart follow one original, and it them, without waiting.

A copy tells what it visited and how many visits each of these values had been built on. Where the original counts no
others since, the told value stands exactly; where it does, the value is the mean of both weighted by their visits: for
copies of one base, told one after the other, that is the merge of `mosaic.runtimes.merging`. The original answers with
the entries that changed since it last did; what the copy has learned meanwhile enters these by the same rule.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import MosaicError
from mosaic.runtimes.merging import weighted_mean


class Learned(NamedTuple):
    """What a copy has to tell: the visited entries only."""

    indices: NDArray[np.int64]  # into the flat table, ascending, each once
    values: NDArray[Any]
    counts: NDArray[np.int64]  # visits, at least one each
    known: NDArray[np.int64]  # visits that the values were built on


class News(NamedTuple):
    """What has changed in the original since its last news for the same copy."""

    indices: NDArray[np.int64]
    values: NDArray[Any]
    visits: NDArray[Any]


def absorb(values: NDArray[Any], visits: NDArray[Any], learned: Learned) -> None:
    """Into a flat table, in place."""
    at = learned.indices
    if at.size and not 0 <= at[0] <= at[-1] < values.size:
        raise MosaicError(f"A rank tells of entry {at[-1]:,} of a table with {values.size:,}: the tables differ.")
    others = visits[at].astype(np.int64) - learned.known
    if (others < 0).any():
        raise MosaicError("A rank knows of visits that the table has not seen: the tables differ.")
    values[at] = weighted_mean(np.stack([values[at], learned.values]), np.stack([others, learned.counts]))
    visits[at] += learned.counts.astype(visits.dtype)


class Original:
    """The table that copies follow. Its owner may learn on it directly between two calls."""

    def __init__(self, values: NDArray[Any], visits: NDArray[Any], copies: int) -> None:
        self._values, self._visits = values.reshape(-1), visits.reshape(-1)
        self._marked = self._visits.copy()
        self._changed_at = np.zeros(values.size, np.int64)
        self._now = 0
        self._told_at = [0] * copies

    def absorb(self, learned: Learned) -> None:
        absorb(self._values, self._visits, learned)

    def news(self, copy: int) -> News:
        """For the copy of that number."""
        changed = np.flatnonzero(self._visits != self._marked)
        self._now += 1
        self._changed_at[changed] = self._now
        self._marked[changed] = self._visits[changed]
        indices = np.flatnonzero(self._changed_at > self._told_at[copy])
        self._told_at[copy] = self._now
        return News(indices, self._values[indices], self._visits[indices])


class Copy:
    """A table that starts as its original did. Its owner learns on it between two calls."""

    def __init__(self, values: NDArray[Any], visits: NDArray[Any]) -> None:
        self._values, self._visits = values.reshape(-1), visits.reshape(-1)
        self._known = self._visits.copy()
        self._on_the_way: deque[Learned] = deque()

    def tell(self) -> Learned:
        """What was visited since the last call."""
        at = np.flatnonzero(self._visits != self._known)
        known = self._known[at].astype(np.int64)
        learned = Learned(at, self._values[at], self._visits[at].astype(np.int64) - known, known)
        self._known[at] = self._visits[at]
        self._on_the_way.append(learned)
        return learned

    def hear(self, news: News, answers: bool) -> None:
        """Right after telling; `answers`: the original had absorbed one more of what was told."""
        if answers:
            self._on_the_way.popleft()
        at = news.indices
        self._values[at], self._visits[at] = news.values, news.visits
        for learned in self._on_the_way:
            again = np.isin(learned.indices, at, assume_unique=True)
            absorb(self._values, self._visits, Learned(*(part[again] for part in learned)))
        self._known[at] = self._visits[at]
