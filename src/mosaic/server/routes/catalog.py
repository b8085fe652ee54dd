"""Routes for what this machine offers: environments, workers, policies, schemas, and its health."""

from __future__ import annotations

from fastapi import APIRouter, Response

from mosaic.config.run import run_schema
from mosaic.core.errors import MosaicError
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.version import VERSION
from mosaic.envs import catalog
from mosaic.policies.controller import PolicyKind
from mosaic.server.context import ServerContext
from mosaic.server.machine_load import MachineLoad, MachineMeter
from mosaic.server.schemas import EnvRow, FindingRow, Health, PolicyRow, QueuedRow, WorkerRow, worker_row
from mosaic.store.state import LIVE, State
from mosaic.workers.registry import load_worker, options_schema


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(tags=["catalog"])
    meter = MachineMeter()

    @router.get("/health", responses={503: {"model": Health, "description": "Degraded: `problems` says why."}})
    def health(response: Response) -> Health:
        """Report whether queued runs are started and runs can be listed. A degraded server responds with status 503."""
        problems = context.dispatcher.problems()
        states: list[State] | None = None
        try:
            states = [run.state for run in context.store.index.list()]
        except (MosaicError, OSError) as error:
            problems.append(f"The runs cannot be listed: {error}")
        response.status_code = 503 if problems else 200
        return Health(
            status="degraded" if problems else "ok",
            problems=tuple(problems),
            version=VERSION,
            queued=None if states is None else states.count(State.QUEUED),
            running=None if states is None else sum(state in LIVE for state in states),
            stuck=context.dispatcher.stuck(),
        )

    @router.get("/queue")
    def queue() -> list[QueuedRow]:
        """List the queued runs in the order in which they will start, and why each waits."""
        return [
            QueuedRow(run_id=run_id, position=place, reason=reason)
            for place, (run_id, reason) in enumerate(context.dispatcher.queue().items(), 1)
        ]

    @router.get("/envs")
    def envs(family: str | None = None) -> list[EnvRow]:
        """List environments; whether their packages are installed, and what to type if not."""
        return [EnvRow.model_validate(entry, from_attributes=True) for entry in catalog.entries(family)]

    @router.get("/workers")
    def workers() -> list[WorkerRow]:
        """List workers with what each of them declares."""
        return [worker_row(name) for name in plugins("mosaic.workers")]

    @router.get("/policies")
    def policies() -> list[PolicyRow]:
        """List kinds of policies, and how to write each."""
        return [_policy(name) for name in plugins("mosaic.policies")]

    @router.get("/schemas/run")
    def schema_of_run() -> dict[str, object]:
        """Return the JSON schema of a run's configuration."""
        return run_schema()

    @router.get("/schemas/workers/{worker}/{algorithm}")
    def schema_of_worker(worker: str, algorithm: str) -> dict[str, object]:
        """Return the schema of `training.params`; its `$id` names the worker, the algorithm and the version."""
        return options_schema(load_worker(worker), algorithm)

    @router.get("/doctor")
    def doctor() -> list[FindingRow]:
        """Return what is installed on the server, what is missing, and what to type."""
        return [FindingRow.model_validate(finding, from_attributes=True) for finding in context.doctor()]

    @router.get("/machine")
    def machine() -> MachineLoad:
        """Return the load of the machine since the last request."""
        return meter.read()

    return router


def _policy(name: str) -> PolicyRow:
    kind: PolicyKind = load_plugin("mosaic.policies", name)
    missing = kind.missing()
    options = {key: field.description or "" for key, field in kind.options.model_fields.items()}
    return PolicyRow(
        id=name, usage=kind.usage, help=kind.help, options=options, installed=missing is None, install=missing
    )
