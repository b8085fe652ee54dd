"""Settings of a server, decided by its owner."""

from __future__ import annotations

from dataclasses import dataclass, field

import psutil

from mosaic.core.machine import available_cores, count_gpus
from mosaic.server.auth.guard import LARGEST_BODY
from mosaic.server.auth.hosts import AllowedHosts, allowed_hosts
from mosaic.server.queue.policy import QueueLimits


def machine_limits(
    runs: int | None = None, cores: int | None = None, memory_mb: int | None = None, gpus: int | None = None
) -> QueueLimits:
    """Return the machine's resources, or less where given."""
    cores = cores or available_cores()
    return QueueLimits(
        runs=runs or max(1, cores),
        cores=cores,
        memory_mb=memory_mb or psutil.virtual_memory().total // 2**20,
        gpus=count_gpus() if gpus is None else gpus,
    )


@dataclass(frozen=True, slots=True)
class ServerSettings:
    hosts: AllowedHosts = field(default_factory=allowed_hosts)  # host names that are accepted
    allow_programs: bool = False  # whether a request may name code to run
    limits: QueueLimits = field(default_factory=machine_limits)  # for all runs of the store together
    retries: int = 0  # further attempts for a run that fails or is lost
    largest_body: int = LARGEST_BODY  # bytes
    start_queued: bool = True  # False: another server of this store does that
