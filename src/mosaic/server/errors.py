"""Error responses: {"error": text} and a status that distinguishes client errors from server errors."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from mosaic.core.errors import InputError, MosaicError, UnknownNameError
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
        app.router.routes.append(route)


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
