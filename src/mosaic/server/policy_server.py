"""Server for one policy: programs that own their env ask it for actions (`mosaic policy-server`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import PolicyID
from mosaic.core.version import VERSION
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
from mosaic.policies.serving.episode import ExperienceSink
from mosaic.policies.serving.service import PolicyService
from mosaic.policies.serving.sessions import EpisodeLimits
from mosaic.server.auth.guard import Guard
from mosaic.server.auth.hosts import AllowedHosts, allowed_hosts
from mosaic.server.auth.token import ensure_token, token_file
from mosaic.server.errors import add_routes, answer_errors, document, status_of
from mosaic.server.policy_source import OnePolicy, ServedSource
from mosaic.server.routes import policy as policy_routes
from mosaic.server.serve import ListenAddress, address_of, listen, run_server, server_config
from mosaic.store.store import Store

DEFAULT_PORT = 8643


def create_policy_app(
    source: ServedSource,
    token: str,
    hosts: AllowedHosts,
    *,
    sink: ExperienceSink | None = None,
    limits: EpisodeLimits | None = None,
) -> FastAPI:
    """Create the API of one policy; `sink` hears of the episodes that clients allow to be used for training."""
    service = PolicyService(source, sink=sink, limits=limits, status_of=status_of)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with policy_routes.running(service, source):
            yield

    app = FastAPI(title="Mosaic policy server", version=VERSION, lifespan=lifespan, docs_url=None, redoc_url=None)
    add_routes(app, policy_routes.routes(service, source))
    answer_errors(app)
    app.add_middleware(Guard, token=token, hosts=hosts, largest_body=policy_routes.LARGEST_CALL)
    app.openapi = lambda: document(app)  # type: ignore[method-assign]
    return app


def serve_policy(
    policy: PolicyID,
    env: EnvironmentConfig | None,
    address: ListenAddress,
    *,
    home: Path | None = None,
    limits: EpisodeLimits | None = None,
    time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
    say: Callable[[str], None] = print,
) -> None:
    """Serve a policy until Ctrl-C; its env is the one that it was trained in unless another is given."""
    address.check()
    store = Store(home)
    source = OnePolicy(policy, env, time_limit_s)
    listener = listen(address)
    with listener:
        app = create_policy_app(source, ensure_token(store.home), allowed_hosts(address.host), limits=limits)
        server = uvicorn.Server(server_config(app))
        for note in source.notes:
            say(f"note: {note}")
        say(f"'{policy}' acts in {source.spec.env_id} on {address_of(listener)}")
        say(f"Its token is in {token_file(store.home)}; programs of this user find it there automatically.")
        run_server(server, listener)
    say("The server has ended.")
