"""How a rank waits for others without keeping a core busy.

MPICH has nothing to sleep on: a rank that waits inside MPI polls at full speed, and would do so for as long as a run is
paused. So a rank looks, and rests a tenth of the time that it has waited already: what it waits for is never noticed
later than that, and a long wait costs next to nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mpi4py import MPI

REST_SHARE = 0.1  # of the time waited so far
LONGEST_REST_S = 0.05
_BELL = 71  # tag


def wait_until(
    ready: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
    rest: Callable[[float], None] = time.sleep,  # nobody tells us when a message is there
) -> None:
    began = clock()
    while not ready():
        rest(min(LONGEST_REST_S, REST_SHARE * (clock() - began)))


def ring(comm: MPI.Intracomm) -> None:
    """Calls all ranks that await the bell."""
    for rank in range(1, comm.Get_size()):
        comm.send(None, rank, _BELL)


def await_ring(comm: MPI.Intracomm) -> None:
    """Until rank 0 rings."""
    wait_until(lambda: comm.iprobe(0, _BELL))
    comm.recv(source=0, tag=_BELL)
