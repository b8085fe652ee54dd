"""Settings of a server, and the context that all its routes share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import psutil

from mosaic.core.machine import available_cores, count_gpus
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.server.auth.guard import LARGEST_BODY
from mosaic.server.auth.hosts import AllowedHosts, allowed_hosts
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.queue.dispatcher import Dispatcher
from mosaic.server.queue.idempotency import Submissions
from mosaic.server.queue.policy import QueueLimits
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store


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


class DoctorFinding(Protocol):
    """One finding of the doctor."""

    @property
    def id(self) -> str: ...
    @property
    def ok(self) -> bool: ...
    @property
    def detail(self) -> str: ...
    @property
    def install(self) -> str | None: ...
    @property
    def optional(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ServerContext:
    store: Store
    trainer: Trainer
    settings: ServerSettings
    submissions: Submissions
    dispatcher: Dispatcher
    doctor: Callable[[], Iterable[DoctorFinding]]
    examinations: EvaluationJobs
    programs: ProgramRule

    def folder(self, ref: str) -> RunFolder:
        """Look the reference up among the runs that exist; it is never joined to a path."""
        return self.store.resolve(ref)

    def run(self, ref: str) -> Run:
        return self.trainer.run(ref)
