"""Limits of a server's queue: cores, memory and GPUs of this machine."""

from __future__ import annotations

import psutil

from mosaic.core.machine import available_cores, count_gpus
from mosaic.server.queue.policy import Limits


def machine_limits(
    runs: int | None = None, cores: int | None = None, memory_mb: int | None = None, gpus: int | None = None
) -> Limits:
    """All of the machine, less where something was said."""
    cores = cores or available_cores()
    return Limits(
        runs=runs or max(1, cores),
        cores=cores,
        memory_mb=memory_mb or psutil.virtual_memory().total // 2**20,
        gpus=count_gpus() if gpus is None else gpus,
    )
