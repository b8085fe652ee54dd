"""FastAPI app of the server: routes, guard, queue."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.concurrency import run_in_threadpool

from mosaic.config.run import RunConfig
from mosaic.core.version import VERSION
from mosaic.policies.serving.service import PolicyService
from mosaic.runs.trainer import Trainer
from mosaic.server.auth.guard import Guard
from mosaic.server.auth.programs import ProgramRule
from mosaic.server.auth.token import ensure_token
from mosaic.server.context import DoctorFinding, ServerContext, ServerSettings
from mosaic.server.errors import add_routes, answer_errors, document, status_of
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.play.registry import Matches
from mosaic.server.policy_source import NamedPolicies
from mosaic.server.queue.dispatcher import Dispatcher
from mosaic.server.queue.idempotency import Submissions
from mosaic.server.routes import (
    catalog,
    demos,
    events,
    examinations,
    exports,
    files,
    frames,
    metrics,
    policy,
    projects,
    relay,
    runs,
    searches,
)
from mosaic.server.routes import matches as match_routes


def create_app(
    store_home: Path, settings: ServerSettings | None = None, doctor: Callable[[], Iterable[DoctorFinding]] = tuple
) -> FastAPI:
    """Create the API over one store; `doctor` reports what is installed on this machine and what is missing."""
    settings = settings or ServerSettings()
    trainer = Trainer(store_home)
    store = trainer.store
    token = ensure_token(store.home)
    dispatcher = Dispatcher(trainer, settings.limits, settings.retries)
    programs = ProgramRule(store.home, settings.allow_programs)
    examined = EvaluationJobs(store.home, programs)
    context = ServerContext(store, trainer, settings, Submissions(store.home), dispatcher, doctor, examined, programs)

    matches = Matches(store.home, programs=programs)
    source = NamedPolicies(programs)
    service = PolicyService(source, status_of=status_of)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        if settings.start_queued:
            dispatcher.open()
        async with policy.running(service, source):
            yield
        await run_in_threadpool(matches.close)
        await run_in_threadpool(examined.close)
        await run_in_threadpool(dispatcher.close)

    # FastAPI's documentation pages load their scripts from other hosts, so they are disabled.
    app = FastAPI(title="Mosaic", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None)
    for part in (runs, metrics, events, frames, catalog, projects, exports, files, searches, relay):
        add_routes(app, part.routes(context))
    add_routes(app, demos.routes(context, matches))
    add_routes(app, match_routes.routes(matches))
    add_routes(app, examinations.routes(examined, matches))
    add_routes(app, policy.routes(service, source))
    answer_errors(app)
    larger = {f"{policy.PREFIX}/": policy.LARGEST_CALL, f"{demos.PREFIX}/": demos.LARGEST_UPLOAD}
    app.add_middleware(Guard, token=token, hosts=settings.hosts, largest_body=settings.largest_body, larger=larger)
    app.openapi = lambda: _document(app)  # type: ignore[method-assign]
    app.state.context, app.state.matches = context, matches
    return app


def _document(app: FastAPI) -> dict[str, Any]:
    """Add the configuration's own schema, which no route uses as a type because it is parsed with better messages."""
    if app.openapi_schema is None:
        described = document(app)
        schema = RunConfig.model_json_schema(ref_template="#/components/schemas/{model}")
        schemas = described["components"]["schemas"]
        schemas.update(schema.pop("$defs", {}))
        schemas["RunConfig"] = schema
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"token": []}]
        app.openapi_schema = described
    return app.openapi_schema
