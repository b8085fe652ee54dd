"""What one MPI rank does for a table: `python -m mosaic.runtimes.mpi_rank mosaic.runtimes.mpi_learner SOCKET`."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, assert_never

from mosaic.learners.tabular.twin_training import TwinTraining
from mosaic.runtimes.merging import apply, delta
from mosaic.runtimes.mpi_exchange import allreduce_sparse, check_agreement, world
from mosaic.runtimes.tabular_mpi import LookAtTable, Round, Setup, Stop, call_driver

if TYPE_CHECKING:
    from mpi4py import MPI


def main(address: str) -> None:
    comm = world()
    check_agreement(comm, {"the version of mosaic-rl": version("mosaic-rl")})
    driver = call_driver(address) if comm.Get_rank() == 0 else None
    setup: Setup = comm.bcast(driver.recv() if driver else None)
    seed = setup.seeds[comm.Get_rank()]
    training = TwinTraining(setup.twin, setup.algorithm, setup.options, seed, setup.opponent)
    comm.Barrier()
    if driver:
        driver.send(True)
    while True:
        message: Round | LookAtTable | Stop = comm.bcast(driver.recv() if driver else None)
        match message:
            case Round():
                reports = _do(comm, training, message)
                if driver:
                    driver.send(reports)
            case LookAtTable():
                if driver:
                    driver.send((training.values, training.visits))
            case Stop():
                return
            case _:
                assert_never(message)


def _do(comm: MPI.Intracomm, training: TwinTraining, order: Round) -> object:
    """A rank without a share has nothing to add, but hears what the others found."""
    rank = comm.Get_rank()
    values, visits = order.table or (training.values.copy(), training.visits.copy())
    training.load({"values": values, "visits": visits, "counts": order.counts[rank], "sums": order.sums[rank]})
    if share := order.shares.get(rank):
        training.advance(share.steps, share.episodes)
    change = allreduce_sparse(comm, delta(values, visits, training.values, training.visits))
    training.values[:], training.visits[:] = apply(values, visits, change)
    return comm.gather((training.progress.counts, training.progress.sums))


if __name__ == "__main__":
    main(*sys.argv[1:])
