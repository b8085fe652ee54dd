"""What the owner of a server decides."""

from __future__ import annotations

from dataclasses import dataclass, field

from mosaic.server.auth.guard import LARGEST_BODY
from mosaic.server.auth.hosts import AllowedHosts, allowed_hosts
from mosaic.server.machine import machine_limits
from mosaic.server.queue.policy import Limits


@dataclass(frozen=True, slots=True)
class ServerSettings:
    hosts: AllowedHosts = field(default_factory=allowed_hosts)  # names under which it may be asked for
    allow_programs: bool = False  # whether a request may name code to run
    limits: Limits = field(default_factory=machine_limits)  # for all runs of the store together
    retries: int = 0  # further attempts for a run that fails or is lost
    largest_body: int = LARGEST_BODY  # bytes
    start_queued: bool = True  # False: another server of this store does that
