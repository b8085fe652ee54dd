"""Communication between MPI ranks: consistency checks, sparse allreduce and messages."""

from __future__ import annotations

import os
import time
from collections import defaultdict, deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.runtimes.merging import Delta, combine
from mosaic.runtimes.mpi.launch import COUNT, INSTALL, check_installed

if TYPE_CHECKING:
    from mpi4py import MPI


def world() -> MPI.Intracomm:
    """Return the communicator of all ranks; a single one unless started by mpiexec."""
    check_installed()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # mpi4py raises RuntimeError if it finds no library
        reason = " ".join(str(error).split())
        raise MissingExtraError(f"MPI is installed, but its library cannot be loaded: {reason}. {INSTALL}") from error
    return MPI.COMM_WORLD


def check_count(comm: MPI.Intracomm) -> None:
    """Raise InputError if ranks do not see each other: each would silently do all the work."""
    started, seen = int(os.environ.get(COUNT, comm.Get_size())), comm.Get_size()
    if started != seen:
        raise InputError(
            f"The ranks disagree: mpiexec started {started}, but they see {seen}. Their MPI library is not the one of "
            f"mpiexec. Unset MPI4PY_LIBMPI and MPI4PY_MPIABI. {INSTALL}"
        )


def check_agreement(comm: MPI.Intracomm, settings: Mapping[str, object]) -> None:
    """Raise InputError on every rank if any two have different settings: their tables could not be merged."""
    first, *others = comm.allgather(dict(settings))
    for rank, other in enumerate(others, start=1):
        for name in {**first, **other}:  # in order: a setting that explains later differences comes first
            here, there = first.get(name), other.get(name)
            if here != there:
                raise InputError(
                    f"The ranks disagree: {name} is {here!r} on rank 0 and {there!r} on rank {rank}. "
                    "Start all ranks with the same config."
                )


def allreduce_sparse(comm: MPI.Intracomm, change: Delta) -> Delta:
    """Combine every rank's delta from a common base, bit-identical on all ranks.

    Only visited entries are sent: a large table of which little changes costs little.
    """
    check_agreement(comm, {"the table's type": change.values.dtype.str})
    sizes = comm.allgather(change.indices.size)
    if len(sizes) == 1:
        return change
    parts = []
    for array in change:
        received = np.empty(sum(sizes), array.dtype)
        comm.Allgatherv(np.ascontiguousarray(array), [received, (sizes, None)])
        parts.append(np.split(received, np.cumsum(sizes)[:-1]))
    return combine([Delta(*row) for row in zip(*parts, strict=True)])


REST_SHARE = 0.1  # of the time waited so far
LONGEST_REST_S = 0.05
_BELL = 71  # message tag


def wait_until(
    ready: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], None] = time.sleep,  # arrival of a message is not signalled
) -> None:
    """Wait without keeping a core busy.

    MPICH has nothing to sleep on: a rank that waits inside MPI polls at full speed, for as long as a run is paused.
    This checks, then rests a tenth of the time waited so far, so that a long wait costs next to nothing and its end is
    noticed at most that much later.
    """
    began = clock()
    while not ready():
        rest(min(LONGEST_REST_S, REST_SHARE * (clock() - began)))


def ring(comm: MPI.Intracomm) -> None:
    """Wake all ranks that wait in `await_ring`."""
    for rank in range(1, comm.Get_size()):
        comm.send(None, rank, _BELL)


def await_ring(comm: MPI.Intracomm) -> None:
    """Wait until rank 0 calls `ring`."""
    wait_until(lambda: comm.iprobe(0, _BELL))
    comm.recv(source=0, tag=_BELL)


_TAG = 72


class Mail:
    """Message queue of one rank. A large message is transferred only while both ends call `move` now and then."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        self._comm = comm
        self._leaving: list[MPI.Request] = []
        self._coming: defaultdict[int, deque[MPI.Request]] = defaultdict(deque)  # per rank, in the order sent
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
        """Return the next message with its sender, or None if none has fully arrived."""
        self.move()
        return self._arrived.popleft() if self._arrived else None

    def wait(self) -> tuple[int, Any]:
        """Wait for the next message and return it with its sender."""
        wait_until(self._has_arrived)
        return self._arrived.popleft()

    def finish(self) -> None:
        """Wait until all sent messages have left."""
        wait_until(self._has_left)

    def _has_arrived(self) -> bool:
        self.move()
        return bool(self._arrived)

    def _has_left(self) -> bool:
        self.move()
        return not self._leaving
