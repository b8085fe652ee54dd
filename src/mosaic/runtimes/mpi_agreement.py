"""Whether all MPI ranks are about to train the same table with the same program.

They may run on machines with different installations, which read the same order differently.
"""

from __future__ import annotations

import hashlib
import platform
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np

from mosaic.core.numba_cache import SOURCES, fingerprint
from mosaic.learners.tabular.options import TabularOptions
from mosaic.learners.tabular.training.twin import Twin, TwinTraining
from mosaic.runtimes.mpi.messaging import check_agreement

if TYPE_CHECKING:
    from mpi4py import MPI


def check_same_programs(comm: MPI.Intracomm) -> None:
    """Before anything but plain facts is exchanged."""
    facts = {f"the version of {name}": version(name) for name in ("mosaic-rl", "numpy", "numba")}
    facts["the version of python"] = ".".join(platform.python_version_tuple()[:2])
    facts["the source of the compiled loops"] = fingerprint(SOURCES)
    check_agreement(comm, facts)


def check_same_training(comm: MPI.Intracomm, training: TwinTraining, algorithm: str, options: TabularOptions) -> None:
    """Before the first step."""
    facts: dict[str, object] = {
        "the table's shape": training.values.shape,
        "the table's type": training.values.dtype.str,
        "algorithm": algorithm,
        "opponent": training.opponent,
    }
    facts |= options.model_dump(mode="json")
    check_agreement(comm, facts | {"the digest of the env's rules": digest(training.twin)})


def digest(twin: Twin) -> str:
    """The same for the same rules only."""
    found = hashlib.blake2b(type(twin).__name__.encode(), digest_size=8)
    for name, part in twin._asdict().items():
        array = np.ascontiguousarray(part)
        found.update(f"{name} {array.dtype.str} {array.shape} ".encode())
        found.update(array.tobytes())
    return found.hexdigest()
