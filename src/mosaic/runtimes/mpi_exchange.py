"""How MPI ranks agree on one table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from mosaic.core.errors import InputError
from mosaic.runtimes.merging import Delta, combine
from mosaic.runtimes.mpi import check_installed

if TYPE_CHECKING:
    from mpi4py import MPI


def world() -> MPI.Intracomm:
    """All ranks; one alone where nobody started more."""
    check_installed()
    from mpi4py import MPI

    return MPI.COMM_WORLD


def check_agreement(comm: MPI.Intracomm, settings: Mapping[str, object]) -> None:
    """InputError on every rank where any two hold different settings: their tables could not be merged."""
    first, *others = comm.allgather(dict(settings))
    for rank, other in enumerate(others, start=1):
        for name in sorted({*first, *other}):
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
