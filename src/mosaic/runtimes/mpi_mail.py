"""How ranks write to each other and go on at once."""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

from mosaic.runtimes.mpi_patience import wait_until

if TYPE_CHECKING:
    from mpi4py import MPI

_TAG = 72


class Mail:
    """One rank's. A large message moves only while both ends attend to it: call `move` now and then."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self._leaving: list[MPI.Request] = []
        self._coming: defaultdict[int, deque[MPI.Request]] = defaultdict(deque)  # of each rank, in the order sent
        self._arrived: deque[tuple[int, Any]] = deque()

    def send(self, to: int, message: object) -> None:
        self._leaving.append(self._comm.isend(message, to, _TAG))

    def move(self) -> None:
        from mpi4py import MPI

        self._leaving = [request for request in self._leaving if not request.Test()]
        status = MPI.Status()
        while (matched := self._comm.improbe(tag=_TAG, status=status)) is not None:
            self._coming[status.Get_source()].append(matched.irecv())
        for sender, requests in self._coming.items():
            while requests:
                whole, message = requests[0].test()
                if not whole:
                    break
                requests.popleft()
                self._arrived.append((sender, message))

    def take(self) -> tuple[int, Any] | None:
        """The next message with its sender, or None where none has arrived in whole."""
        self.move()
        return self._arrived.popleft() if self._arrived else None

    def wait(self) -> tuple[int, Any]:
        """The next message, however long it takes."""
        wait_until(self._has_arrived)
        return self._arrived.popleft()

    def finish(self) -> None:
        """Until all that was sent has left."""
        wait_until(self._has_left)

    def _has_arrived(self) -> bool:
        self.move()
        return bool(self._arrived)

    def _has_left(self) -> bool:
        self.move()
        return not self._leaving
