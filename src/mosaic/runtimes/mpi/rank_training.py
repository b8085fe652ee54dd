"""Tabular training on one MPI rank.

Run as `python -m mosaic.runtimes.mpi.rank mosaic.runtimes.mpi.rank_training SOCKET`.
"""

from __future__ import annotations

import hashlib
import platform
import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, assert_never

import numpy as np

from mosaic.core.numba_cache import SOURCES, fingerprint
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.mdp import open_training
from mosaic.learners.tabular.training.twin import Twin, TwinTraining
from mosaic.runtimes.merging import apply, delta
from mosaic.runtimes.mpi.messaging import allreduce_sparse, await_ring, check_agreement, ring, world
from mosaic.runtimes.mpi.server import Contributor, TableServer
from mosaic.runtimes.mpi.steps import Budget
from mosaic.runtimes.mpi.tabular import LookAtTable, Message, MpiSetup, Order, Round, StopRanks, call_driver

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from typing import Any

    from mpi4py import MPI


def check_same_programs(comm: MPI.Intracomm) -> None:
    """Check that all ranks run the same versions, before anything but plain data is exchanged.

    Ranks may run on machines with different installations, which read the same order differently.
    """
    facts = {f"the version of {name}": version(name) for name in ("mosaic-rl", "numpy", "numba")}
    facts["the version of python"] = ".".join(platform.python_version_tuple()[:2])
    facts["the source of the compiled loops"] = fingerprint(SOURCES)
    check_agreement(comm, facts)


def check_same_training(comm: MPI.Intracomm, training: TwinTraining, algorithm: str, options: TabularOptions) -> None:
    """Check that all ranks train the same table, before the first step."""
    facts: dict[str, object] = {
        "the table's shape": training.values.shape,
        "the table's type": training.values.dtype.str,
        "algorithm": algorithm,
        "opponent": training.opponent,
    }
    facts |= options.model_dump(mode="json")
    check_agreement(comm, facts | {"the digest of the env's rules": digest(training.twin)})


def digest(twin: Twin) -> str:
    """Return a digest that is equal only for equal rules."""
    found = hashlib.blake2b(type(twin).__name__.encode(), digest_size=8)
    for name, part in twin._asdict().items():
        array = np.ascontiguousarray(part)
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def main(address: str) -> None:
    comm = world()
    check_same_programs(comm)
    driver = call_driver(address) if comm.Get_rank() == 0 else None
    setup: MpiSetup = comm.bcast(driver.recv() if driver else None)
    seed = setup.seeds[comm.Get_rank()]
    training = open_training(setup.twin, setup.algorithm, setup.options, seed, setup.opponent)
    check_same_training(comm, training, setup.algorithm, setup.options)
    if driver:
        driver.send(True)
    part: TableServer | Contributor | None = None  # server mode only
    while True:
        message = _next_message(comm, driver)
        match message:
            case Round():
                reports = _do(comm, training, message)
                if driver:
                    driver.send(reports)
            case Order():
                if message.table is not None:
                    training.values[:], training.visits[:] = message.table
                    part = None  # it knows another table
                part = part or (TableServer(comm, training) if driver else Contributor(comm, training))
                reports = _carry_out(comm, training, part, message)
                if driver:
                    driver.send(reports)
            case LookAtTable():
                if driver:
                    driver.send((training.values, training.visits))
            case StopRanks():
                return
            case _:
                assert_never(message)


def _next_message(comm: MPI.Intracomm, driver: Connection[Any, Any] | None) -> Message:
    """Wait for the driver's next message.

    A run may be paused for days: rank 0 sleeps on its socket, the others until it calls `ring`.
    """
    heard = driver.recv() if driver else None
    ring(comm) if driver else await_ring(comm)
    message: Message = comm.bcast(heard)
    return message


def _do(comm: MPI.Intracomm, training: TwinTraining, order: Round) -> object:
    """Train this rank's share of a round. A rank without a share adds nothing, but receives the others' changes."""
    rank = comm.Get_rank()
    values, visits = order.table or (training.values.copy(), training.visits.copy())
    training.load({"values": values, "visits": visits, "counts": order.counts[rank], "sums": order.sums[rank]})
    if share := order.shares.get(rank):
        training.advance(share.steps, share.episodes)
    change = allreduce_sparse(comm, delta(values, visits, training.values, training.visits))
    training.values[:], training.visits[:] = apply(values, visits, change)
    return comm.gather((training.progress.counts, training.progress.sums))


def _carry_out(comm: MPI.Intracomm, training: TwinTraining, part: TableServer | Contributor, order: Order) -> object:
    rank, progress = comm.Get_rank(), training.progress
    progress.counts[:], progress.sums[:] = order.counts[rank], order.sums[rank]
    if isinstance(part, TableServer):
        part.carry_out(Budget(order.steps, order.episodes, comm.Get_size(), order.tell_every))
    else:
        part.carry_out()
    return comm.gather((progress.counts, progress.sums))


if __name__ == "__main__":
    main(*sys.argv[1:])
