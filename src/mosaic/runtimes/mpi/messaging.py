"""How MPI ranks agree on one table."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.runtimes.merging import Delta, combine
from mosaic.runtimes.mpi.error_file import COUNT
from mosaic.runtimes.mpi.launch import INSTALL, check_installed

if TYPE_CHECKING:
    from mpi4py import MPI


def world() -> MPI.Intracomm:
    """All ranks; one alone where nobody started more."""
    check_installed()
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # the second is what mpi4py raises where it finds no library
        reason = " ".join(str(error).split())
        raise MissingExtraError(f"MPI is installed, but its library cannot be loaded: {reason}. {INSTALL}") from error
    return MPI.COMM_WORLD


def check_count(comm: MPI.Intracomm) -> None:
    """InputError where ranks do not see each other: each would do all the work and none would know."""
    started, seen = int(os.environ.get(COUNT, comm.Get_size())), comm.Get_size()
    if started != seen:
        raise InputError(
            f"The ranks disagree: mpiexec started {started}, but they see {seen}. Their MPI library is not the one of "
            f"mpiexec. Unset MPI4PY_LIBMPI and MPI4PY_MPIABI. {INSTALL}"
        )


def check_agreement(comm: MPI.Intracomm, settings: Mapping[str, object]) -> None:
    """InputError on every rank where any two hold different settings: their tables could not be merged."""
    first, *others = comm.allgather(dict(settings))
    for rank, other in enumerate(others, start=1):
        for name in {**first, **other}:  # in their order: what explains the rest comes first
            here, there = first.get(name), other.get(name)
            if here != there:
                raise InputError(
                    f"The ranks disagree: {name} is {here!r} on rank 0 and {there!r} on rank {rank}. "
                    "Start all ranks with the same config."
                )


def allreduce_sparse(comm: MPI.Intracomm, change: Delta) -> Delta:
    """Every rank's delta from a common base as one, the same to the last bit on all ranks.

    Only visited entries travel: a large table of which little changes costs little.
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
