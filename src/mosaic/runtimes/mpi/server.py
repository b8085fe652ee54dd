"""How ranks learn into one table that rank 0 keeps, each at its own pace.

Every rank learns. Rank 0 does so on the table itself, in slices of some milliseconds, and attends to the others in
between. A rank always has a further grant in reserve: it tells what it has learned and goes on, and takes over what the
others found whenever the answer is there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, assert_never

from mosaic.learners.tabular.training.twin import TwinTraining
from mosaic.runtimes.mpi.steps import Budget, Grant
from mosaic.runtimes.mpi_copies import Copy, Learned, News, Original
from mosaic.runtimes.mpi_mail import Mail

if TYPE_CHECKING:
    from mpi4py import MPI

_SLICE = 500_000  # steps: entering a compiled loop costs as much as 10,000 of them
_GRANTS_EACH = 2  # one to work on, one in reserve


class Told(NamedTuple):
    """To rank 0: what became of the oldest grant."""

    steps: int
    episodes: int
    learned: Learned


class Given(NamedTuple):
    """From rank 0: what to do next, and where the table is."""

    grant: Grant
    news: News
    answers: bool  # the news hold one more of what was told


class Heard(NamedTuple):
    """From rank 0: nothing to do for now, but this is where the table is."""

    news: News


class Over(NamedTuple):
    """From rank 0: the order is carried out."""

    news: News


class Keeper:
    """Rank 0."""

    def __init__(self, comm: MPI.Intracomm, training: TwinTraining) -> None:
        self._training, self._mail = training, Mail(comm)
        self._others = range(1, comm.Get_size())
        self._original = Original(training.values, training.visits, comm.Get_size())
        self._granted: dict[int, deque[Grant]] = {rank: deque() for rank in self._others}

    def carry_out(self, budget: Budget) -> None:
        """Until the budget is done and all that was learned is in the table."""
        self._deal(budget)
        while not budget.done:
            if own := budget.grant():
                steps, episodes = take_steps(self._training, own, lambda: self._attend(budget))
                budget.settle(own, steps, episodes)
            else:
                self._enter(*self._mail.wait(), budget)
            self._attend(budget)
        for rank in self._others:
            self._mail.send(rank, Over(self._original.news(rank)))
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
            self._mail.send(rank, Heard(self._original.news(rank)))
        else:
            self._give(rank, next_grant, answers=True)

    def _deal(self, budget: Budget) -> None:
        """To those who have none in reserve: at first, and when steps have come back."""
        for rank in self._others:
            while len(self._granted[rank]) < _GRANTS_EACH and (grant := budget.grant()):
                self._give(rank, grant, answers=False)

    def _give(self, rank: int, grant: Grant, answers: bool) -> None:
        self._granted[rank].append(grant)
        self._mail.send(rank, Given(grant, self._original.news(rank), answers))


class Contributor:
    """Every other rank."""

    def __init__(self, comm: MPI.Intracomm, training: TwinTraining) -> None:
        self._training, self._mail = training, Mail(comm)
        self._copy = Copy(training.values, training.visits)

    def carry_out(self) -> None:
        """Until rank 0 says that it is over."""
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
                    self._copy.hear(message.news, message.answers)
                    grants.append(message.grant)
                case Heard():
                    self._copy.hear(message.news, answers=True)
                case Over():
                    self._copy.hear(message.news, answers=False)
                    self._mail.finish()
                    return
                case _:
                    assert_never(message)


def take_steps(training: TwinTraining, grant: Grant, between: Callable[[], None]) -> tuple[int, int]:
    """The steps that were taken and the episodes that ended, in slices with something else between them."""
    steps, episodes = training.agent_steps, training.episodes
    last_episode = episodes + grant.episodes if grant.episodes else 0
    while (left := grant.steps - (training.agent_steps - steps)) > 0:
        if last_episode and training.episodes >= last_episode:
            break
        training.advance(min(left, _SLICE), last_episode)
        between()
    return training.agent_steps - steps, training.episodes - episodes
