"""Context shared by all routes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.queue.dispatcher import Dispatcher
from mosaic.server.queue.idempotency import Submissions
from mosaic.server.settings import ServerSettings
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store


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
