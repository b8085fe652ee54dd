"""Error responses: {"error": text} and a status that distinguishes client errors from server errors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request, WebSocketException
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute, APIWebSocketRoute
from starlette.datastructures import QueryParams
from starlette.exceptions import HTTPException
from starlette.status import WS_1008_POLICY_VIOLATION
from starlette.types import ASGIApp, Receive, Scope, Send

from mosaic.core.errors import InputError, MosaicError, UnknownNameError, unknown
from mosaic.server.auth.programs import ForbiddenProgramsError
from mosaic.server.schemas import Complaint
from mosaic.store.errors import StorageError, reason

# The schema by its name: with the class, FastAPI would build a validator for every route and status, some hundreds.
_COMPLAINT = {"application/json": {"schema": {"$ref": "#/components/schemas/Complaint"}}}
_REASONS = {
    400: "The request is invalid.",
    401: "No token, or a wrong one.",
    403: "Only the server's owner may allow this.",
    404: "Not found.",
    409: "Not in this state.",
    413: "The body is too large.",
    421: "The Host header is not allowed.",
    422: "A part of the URL is invalid.",
}
REFUSALS: dict[int | str, dict[str, object]] = {
    status: {"description": text, "content": _COMPLAINT} for status, text in _REASONS.items()
}


def add_routes(app: FastAPI, router: APIRouter) -> None:
    """Add a router's routes with their refusals; `include_router` would build each again, at the first request."""
    for route in router.routes:
        if isinstance(route, APIRoute):
            route.responses = {**REFUSALS, **route.responses}
        if isinstance(route, APIRoute | APIWebSocketRoute):
            route.app = _known_queries_only(route)
        app.router.routes.append(route)


def _known_queries_only(route: APIRoute | APIWebSocketRoute) -> ASGIApp:
    """Return the route's app, preceded by a refusal of query parameters that it does not have."""
    answer, known = route.app, {field.alias for field in route.dependant.query_params}

    async def checked(scope: Scope, receive: Receive, send: Send) -> None:
        found = next((name for name in QueryParams(scope["query_string"]) if name not in known), None)
        if found is None:
            await answer(scope, receive, send)
            return
        text = str(unknown("query parameter", found, known))
        if scope["type"] == "websocket":
            raise WebSocketException(WS_1008_POLICY_VIOLATION, text)
        await complain(422, text)(scope, receive, send)

    return checked


def document(app: FastAPI) -> dict[str, Any]:
    """Return a new OpenAPI document of the app, with the schema that `REFUSALS` name."""
    described = get_openapi(title=app.title, version=app.version, routes=app.routes)
    schemas = described.setdefault("components", {}).setdefault("schemas", {})
    schemas["Complaint"] = Complaint.model_json_schema()
    return described


def complain(status: int, text: str) -> JSONResponse:
    sendable = text.encode(errors="backslashreplace").decode()  # it may quote a name that is not valid Unicode
    return JSONResponse({"error": sendable}, status)


def status_of(error: MosaicError) -> int:
    match error:
        case ForbiddenProgramsError():
            return 403
        case UnknownNameError():
            return 404
        case InputError():
            return 400
        case StorageError():
            return 507
        case _:
            return 409


def answer_errors(app: FastAPI) -> None:
    @app.exception_handler(MosaicError)
    async def mosaic_error(request: Request, error: MosaicError) -> JSONResponse:
        return complain(status_of(error), str(error))

    @app.exception_handler(OSError)
    async def storage(request: Request, error: OSError) -> JSONResponse:
        return complain(507, f"{error.filename or 'The store'}: {reason(error)}.")

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = " ".join(map(str, first["loc"]))
        return complain(422, f"{where}: {first['msg']}.")

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        answer = complain(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> JSONResponse:
        return complain(500, "Internal server error; see the server's log.")  # details may be confidential
