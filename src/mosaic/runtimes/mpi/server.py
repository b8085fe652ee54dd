"""Parameter server for MPI ranks: all learn into one table held by rank 0, each at its own pace.

Every rank learns. Rank 0 does so on the table itself, in slices of some milliseconds, and serves the others in between.
A rank always has another grant in reserve: it sends what it has learned and continues, and takes over what the others
found as soon as the reply has arrived.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, assert_never

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import MosaicError
from mosaic.learners.tabular.experience import Values, Visits
from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runtimes.merging import weighted_mean
from mosaic.runtimes.mpi.messaging import Mail
from mosaic.runtimes.mpi.steps import Budget, Grant

if TYPE_CHECKING:
    from mpi4py import MPI


class Learned(NamedTuple):
    """Update sent by a copy: the visited entries only."""

    indices: NDArray[np.int64]  # into the flat table, ascending, unique
    values: Values
    counts: NDArray[np.int64]  # visits, at least one each
    known: NDArray[np.int64]  # visits on which the values are based

    def where(self, kept: NDArray[np.bool_]) -> Learned:
        return Learned(self.indices[kept], self.values[kept], self.counts[kept], self.known[kept])


class TableChanges(NamedTuple):
    """Changes of the original since the last update sent to the same copy."""

    indices: NDArray[np.int64]
    values: Values
    visits: Visits


def absorb(values: Values, visits: Visits, learned: Learned) -> None:
    """Merge an update into a flat table, in place.

    A value stands exactly where the original counts no visits besides those that it was built on. Elsewhere it becomes
    the mean of both values weighted by their visits. For copies of one base, applied one after the other, that is the
    merge of `mosaic.runtimes.merging`.
    """
    at = learned.indices
    if at.size and not 0 <= at[0] <= at[-1] < values.size:
        raise MosaicError(f"A rank reports entry {at[-1]:,} of a table with {values.size:,}: the tables differ.")
    others = visits[at].astype(np.int64) - learned.known
    if (others < 0).any():
        raise MosaicError("A rank reports visits that the table has not seen: the tables differ.")
    values[at] = weighted_mean(np.stack([values[at], learned.values]), np.stack([others, learned.counts]))
    visits[at] += learned.counts.astype(visits.dtype)


class Original:
    """Table that copies follow. Its owner may learn on it directly between two calls."""

    def __init__(self, values: Values, visits: Visits, copies: int) -> None:
        self._values, self._visits = values.reshape(-1), visits.reshape(-1)
        self._marked = self._visits.copy()
        self._changed_at = np.zeros(values.size, np.int64)
        self._now = 0
        self._told_at = [0] * copies

    def absorb(self, learned: Learned) -> None:
        absorb(self._values, self._visits, learned)

    def changes(self, copy: int) -> TableChanges:
        """Return the changes since the last call for this copy."""
        changed = np.flatnonzero(self._visits != self._marked)
        self._now += 1
        self._changed_at[changed] = self._now
        self._marked[changed] = self._visits[changed]
        indices = np.flatnonzero(self._changed_at > self._told_at[copy])
        self._told_at[copy] = self._now
        return TableChanges(indices, self._values[indices], self._visits[indices])


class Copy:
    """Table that starts equal to its original. Its owner learns on it between two calls."""

    def __init__(self, values: Values, visits: Visits) -> None:
        self._values, self._visits = values.reshape(-1), visits.reshape(-1)
        self._known = self._visits.copy()
        self._on_the_way: deque[Learned] = deque()

    def tell(self) -> Learned:
        """Return the entries visited since the last call."""
        at = np.flatnonzero(self._visits != self._known)
        known = self._known[at].astype(np.int64)
        learned = Learned(at, self._values[at], self._visits[at].astype(np.int64) - known, known)
        self._known[at] = self._visits[at]
        self._on_the_way.append(learned)
        return learned

    def hear(self, changes: TableChanges, answers: bool) -> None:
        """Take over the original's changes, right after `tell`.

        `answers`: the original has absorbed one more of the updates sent.
        """
        if answers:
            self._on_the_way.popleft()
        at = changes.indices
        self._values[at], self._visits[at] = changes.values, changes.visits
        for learned in self._on_the_way:
            again = np.isin(learned.indices, at, assume_unique=True)
            absorb(self._values, self._visits, learned.where(again))
        self._known[at] = self._visits[at]


_SLICE = 500_000  # steps: entering a compiled loop costs as much as 10,000 of them
_GRANTS_EACH = 2  # one to work on, one in reserve


class Told(NamedTuple):
    """Message to rank 0: result of the oldest grant."""

    steps: int
    episodes: int
    learned: Learned


class Given(NamedTuple):
    """Message from rank 0: next grant and changes of the table."""

    grant: Grant
    changes: TableChanges
    answers: bool  # the changes include one more of the updates sent


class Heard(NamedTuple):
    """Message from rank 0: changes of the table, without a grant for now."""

    changes: TableChanges


class Over(NamedTuple):
    """Message from rank 0: the order is complete."""

    changes: TableChanges


class TableServer:
    """Owner of the original table, on rank 0."""

    def __init__(self, comm: MPI.Intracomm, training: TwinTraining) -> None:
        self._training, self._mail = training, Mail(comm)
        self._others = range(1, comm.Get_size())
        self._original = Original(training.values, training.visits, comm.Get_size())
        self._granted: dict[int, deque[Grant]] = {rank: deque() for rank in self._others}

    def carry_out(self, budget: Budget) -> None:
        """Train until the budget is used up and everything learned is in the table."""
        self._deal(budget)
        while not budget.done:
            if own := budget.grant():
                steps, episodes = take_steps(self._training, own, lambda: self._attend(budget))
                budget.settle(own, steps, episodes)
            else:
                self._enter(*self._mail.wait(), budget)
            self._attend(budget)
        for rank in self._others:
            self._mail.send(rank, Over(self._original.changes(rank)))
        self._mail.finish()

    def _attend(self, budget: Budget) -> None:
        while (letter := self._mail.take()) is not None:
            self._enter(*letter, budget)
        self._deal(budget)

    def _enter(self, rank: int, told: Told, budget: Budget) -> None:
        budget.settle(self._granted[rank].popleft(), told.steps, told.episodes)
        self._original.absorb(told.learned)
        next_grant = budget.grant()
        if next_grant is None:
            self._mail.send(rank, Heard(self._original.changes(rank)))
        else:
            self._give(rank, next_grant, answers=True)

    def _deal(self, budget: Budget) -> None:
        """Give grants to ranks that have none in reserve: at the start, and when unused steps have come back."""
        for rank in self._others:
            while len(self._granted[rank]) < _GRANTS_EACH and (grant := budget.grant()):
                self._give(rank, grant, answers=False)

    def _give(self, rank: int, grant: Grant, answers: bool) -> None:
        self._granted[rank].append(grant)
        self._mail.send(rank, Given(grant, self._original.changes(rank), answers))


class Contributor:
    """Owner of a copy of the table, on every other rank."""

    def __init__(self, comm: MPI.Intracomm, training: TwinTraining) -> None:
        self._training, self._mail = training, Mail(comm)
        self._copy = Copy(training.values, training.visits)

    def carry_out(self) -> None:
        """Train until rank 0 reports that the order is complete."""
        grants: deque[Grant] = deque()
        while True:
            letter = self._mail.take() if grants else self._mail.wait()
            if letter is None:
                steps, episodes = take_steps(self._training, grants.popleft(), self._mail.move)
                self._mail.send(0, Told(steps, episodes, self._copy.tell()))
                continue
            message: Given | Heard | Over = letter[1]
            match message:
                case Given():
                    self._copy.hear(message.changes, message.answers)
                    grants.append(message.grant)
                case Heard():
                    self._copy.hear(message.changes, answers=True)
                case Over():
                    self._copy.hear(message.changes, answers=False)
                    self._mail.finish()
                    return
                case _:
                    assert_never(message)


def take_steps(training: TwinTraining, grant: Grant, between: Callable[[], None]) -> tuple[int, int]:
    """Train in slices, calling `between` after each; return the steps taken and the episodes ended."""
    steps, episodes = training.agent_steps, training.episodes
    last_episode = episodes + grant.episodes if grant.episodes else 0
    while (left := grant.steps - (training.agent_steps - steps)) > 0:
        if last_episode and training.episodes >= last_episode:
            break
        training.advance(min(left, _SLICE), last_episode)
        between()
    return training.agent_steps - steps, training.episodes - episodes
