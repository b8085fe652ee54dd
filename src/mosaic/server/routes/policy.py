"""Routes for programs that own their env and ask for actions: one for each call, and a WebSocket for all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from inspect import cleandoc
from itertools import count
from typing import Any

import msgspec
from fastapi import APIRouter, Request, Response
from starlette.types import Message
from starlette.websockets import WebSocket

from mosaic.core.ids import JsonObject
from mosaic.envs.space_json import spec_spaces
from mosaic.policies.serving.messages import (
    BINARY_TYPE,
    CALLS,
    JSON_TYPE,
    PROTOCOL,
    CallError,
    Reply,
    encode,
    read_calls,
)
from mosaic.policies.serving.service import PolicyService
from mosaic.server.policy_source import ServedSource

PREFIX = "/policy"
LARGEST_CALL = 16 << 20  # bytes of a message: pictures of many episodes
_SWEEP_S = 5.0
_connections = count(1)


REPLIES: dict[int | str, dict[str, Any]] = {  # in the encoding of the call; several calls have a list of them
    200: {"description": "The reply.", "content": {JSON_TYPE: {"schema": {}}}}
}


def routes(service: PolicyService, source: ServedSource) -> APIRouter:
    router = APIRouter(tags=["policy"], prefix=PREFIX)

    @router.get("")
    def describe() -> dict[str, object]:
        """Return what this server plays: policy, env, agents and spaces, or nothing where each episode names them."""
        return {**description(service, source)}

    meanings = {name: cleandoc(kind.__doc__ or "") for name, kind in CALLS.items()}
    for name, meaning in {**meanings, "calls": "Carry out one call or several, of any kind, in their order."}.items():
        router.post(
            f"/{name}",
            summary=name,
            description=meaning,
            openapi_extra=_schema(name),
            response_class=Response,
            responses=REPLIES,
        )(_handler(service, name if name in CALLS else ""))

    @router.websocket("/stream")
    async def stream(socket: WebSocket) -> None:
        """Carry out calls as they come, text as JSON and bytes as MessagePack, and reply in the same form."""
        await converse(socket, service)

    return router


@asynccontextmanager
async def running(service: PolicyService, source: ServedSource) -> AsyncIterator[None]:
    """Drop idle episodes while the server runs, and all of them when it ends."""
    sweeping = asyncio.create_task(_sweep(service))
    try:
        yield
    finally:
        sweeping.cancel()
        with suppress(asyncio.CancelledError):
            await sweeping
        await service.close()
        source.close()


async def _sweep(service: PolicyService) -> None:
    while True:
        await asyncio.sleep(_SWEEP_S)
        service.drop_idle()


def description(service: PolicyService, source: ServedSource) -> JsonObject:
    limits = service.episodes.limits
    facts: JsonObject = {
        "protocol": PROTOCOL,
        "encodings": [JSON_TYPE, BINARY_TYPE],
        "stream": f"{PREFIX}/stream",
        "episodes": len(service.episodes),
        "limits": {"episodes": limits.episodes, "per_client": limits.per_client, "idle_s": limits.idle_s},
    }
    if source.spec is not None:
        spaces: JsonObject = {**spec_spaces(source.spec)}
        facts |= {"policy": source.policy, "env": source.spec.env_id, "spaces": spaces}
        facts["agents"] = list(source.spec.possible_agents)
    return facts


def _handler(service: PolicyService, name: str) -> Callable[[Request], Any]:
    async def call(request: Request) -> Response:
        binary = request.headers.get("content-type", "").partition(";")[0].strip().lower() == BINARY_TYPE
        client = f"http {request.client.host}" if request.client else "http"
        try:
            reply = await service.answer(read_calls(await request.body(), binary=binary, name=name), client)
        except CallError as error:
            reply = dict(error.document())
        status = reply.get("status", 200) if isinstance(reply, dict) else 200
        return Response(encode(reply, binary=binary), status, media_type=BINARY_TYPE if binary else JSON_TYPE)

    return call


async def converse(socket: WebSocket, service: PolicyService) -> None:
    """Serve one connection; episodes that were begun on it end with it."""
    await socket.accept()
    client = f"connection {next(_connections)}"
    receive, send = socket._receive, socket._send  # the checks of `socket.send` would cost more than the reply
    try:
        while True:
            message = await receive()
            if message["type"] == "websocket.disconnect":
                return
            await send(await _reply(message, service, client))
    except OSError:
        return  # the client disconnected while its reply was being sent
    finally:
        service.drop_client(client, "its connection was closed")


async def _reply(message: Message, service: PolicyService, client: str) -> Message:
    text = message.get("text")
    body, binary = (message["bytes"], True) if text is None else (text, False)
    reply: Reply | list[Reply]
    try:
        reply = await service.answer(read_calls(body, binary=binary), client)
    except CallError as error:
        reply = dict(error.document())
    data = encode(reply, binary=binary)
    return {"type": "websocket.send", "bytes": data} if binary else {"type": "websocket.send", "text": data.decode()}


def _schema(name: str) -> dict[str, Any]:
    """Return the part of the OpenAPI document that describes a call: one, or a list."""
    if name in CALLS:
        (schema,), parts = msgspec.json.schema_components([CALLS[name]], ref_template="#/components/schemas/{name}")
        one = parts[schema["$ref"].rpartition("/")[2]]
        one["properties"].pop("call", None)
        one["required"] = [field for field in one.get("required", []) if field != "call"]
    else:
        one = {"type": "object", "properties": {"call": {"enum": list(CALLS)}}, "required": ["call"]}
    body = {"schema": {"anyOf": [one, {"type": "array", "items": one}]}}
    return {"requestBody": {"required": True, "content": {JSON_TYPE: body}}}
