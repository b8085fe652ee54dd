"""Relay between programs that own their env and a training run of this server: one address and one token for all runs.

The run listens on a port of this machine (`external:PORT`); below `/runs/{ref}/policy` are the same calls.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
from fastapi import APIRouter, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.websockets import WebSocket, WebSocketDisconnect

from mosaic.core.errors import InputError
from mosaic.envs.families.external import ExternalOptions, port_of
from mosaic.envs.families.mosaic import read_options
from mosaic.policies.serving.messages import BINARY_TYPE, CALLS, JSON_TYPE, CallError, encode
from mosaic.server.auth.token import ensure_token
from mosaic.server.context import ServerContext
from mosaic.server.routes.policy import LARGEST_CALL, REPLIES
from mosaic.store.state import State

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

_HERE = ("127.0.0.1", "localhost", "0.0.0.0")
_REPLY_S = 600.0  # a learner that updates its networks lets programs wait
_GONE = 1012  # WebSocket: the run has ended, and may come again


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(tags=["policy"], prefix="/runs/{ref}/policy")

    async def forward(request: Request, ref: str, path: str) -> Response:
        kind = request.headers.get("content-type", JSON_TYPE)
        try:
            port = await run_in_threadpool(_port, context, ref)
            async with httpx.AsyncClient(trust_env=False, timeout=_REPLY_S) as client:
                reply = await client.request(
                    request.method,
                    f"http://127.0.0.1:{port}/policy{path}",
                    content=await request.body(),
                    headers={"Content-Type": kind, **_token(context)},
                )
        except (CallError, httpx.HTTPError) as error:
            refused = error if isinstance(error, CallError) else _silent(ref)
            binary = kind == BINARY_TYPE
            document = encode(refused.document(), binary=binary)
            return Response(document, refused.status, media_type=BINARY_TYPE if binary else JSON_TYPE)
        return Response(reply.content, reply.status_code, media_type=reply.headers.get("content-type"))

    @router.get("", response_class=Response, responses=REPLIES)
    async def describe(request: Request, ref: str) -> Response:
        """Return what the run trains: agents and spaces."""
        return await forward(request, ref, "")

    @router.post("/{call}", response_class=Response, responses=REPLIES)
    async def call(request: Request, ref: str, call: str) -> Response:
        """Carry out a call of a program; see `/policy/{call}`."""
        if call not in (*CALLS, "calls"):
            raise InputError(f"There is no call named '{call}'. Known: {', '.join(CALLS)}, calls.")
        return await forward(request, ref, f"/{call}")

    @router.websocket("/stream")
    async def stream(socket: WebSocket, ref: str) -> None:
        """Carry out calls of a program; see `/policy/stream`."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException

        try:
            port = await run_in_threadpool(_port, context, ref)
            address, options = f"ws://127.0.0.1:{port}/policy/stream", {"compression": None, "max_size": LARGEST_CALL}
            async with connect(address, additional_headers=_token(context), proxy=None, **options) as run:  # type: ignore[arg-type]
                await socket.accept()
                await _pump(socket, run)
                return
        except (CallError, OSError, WebSocketException) as error:
            refused = error if isinstance(error, CallError) else _silent(ref)
            document = encode(refused.document(), binary=False)
            await socket.send_denial_response(Response(document, refused.status, media_type=JSON_TYPE))

    return router


async def _pump(socket: WebSocket, run: ClientConnection) -> None:
    """Carry messages both ways until one side ends; episodes of a disconnected program end with the connection."""

    async def up() -> None:
        with suppress(WebSocketDisconnect):
            while True:
                message = await socket.receive()
                if message["type"] == "websocket.disconnect":
                    return
                await run.send(message["bytes"] if message.get("text") is None else message["text"])

    async def down() -> None:
        async for message in run:
            await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))
        await socket.close(_GONE, "the run has ended")

    both = [asyncio.create_task(up()), asyncio.create_task(down())]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


def _port(context: ServerContext, ref: str) -> int:
    """Return the port at which a run listens; raise CallError where none does."""
    run = context.run(ref)
    environment = run.folder.read_config().environment
    if environment.family != "external":
        raise CallError(
            "refused", f"The run '{ref}' steps {environment.id} itself. Programs connect to runs of external:PORT."
        )
    host = read_options(environment, ExternalOptions).host
    if host not in _HERE:
        raise CallError("refused", f"The run '{ref}' listens on {host}:{port_of(environment)}. Connect there.")
    if run.state not in (State.RUNNING, State.PAUSED):
        raise CallError("episode_busy", f"The run '{ref}' is {run.state}, and does not listen. Try again later.")
    return port_of(environment)


def _silent(ref: str) -> CallError:
    return CallError("episode_busy", f"The run '{ref}' does not listen yet, or has just ended. Try again.")


def _token(context: ServerContext) -> dict[str, str]:
    return {"Authorization": f"Bearer {ensure_token(context.store.home)}"}
