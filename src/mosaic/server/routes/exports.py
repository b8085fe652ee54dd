"""Routes for exports: start one, follow it, read its log and comparison, cancel it, download its files."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import FileResponse

from mosaic.config.export import ExportRequest, parse_export
from mosaic.config.file_formats import read_json
from mosaic.core.errors import FormatError, InputError, UnknownNameError
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.exporting.record import ExportRow
from mosaic.server.context import ServerContext
from mosaic.server.play.registry import TooManyError
from mosaic.store.archives.trust import foreign
from mosaic.store.logs import Stream
from mosaic.store.state import ENDED, read_state
from mosaic.store.views import LogPart

MOST_AT_ONCE = 2  # each takes a core, and torch much memory
_BODY = {
    "requestBody": {
        "required": True,
        "description": "Export to start; GET /schemas/export describes it.",
        "content": {"application/json": {"schema": {"type": "object", "additionalProperties": True}}},
    }
}
_FILE: dict[int | str, dict[str, Any]] = {200: {"content": {"application/octet-stream": {}}}}


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(tags=["exports"])
    jobs = ExportJobs(context.store)

    @router.get("/schemas/export")
    def schema() -> dict[str, object]:
        """Return the JSON schema of a request."""
        return ExportRequest.model_json_schema()

    @router.post("/exports", status_code=201, openapi_extra=_BODY)
    def begin_export(body: Annotated[bytes, Depends(_body)]) -> ExportRow:
        """Start an export in the background and return at once; its files stay in the server's own folder."""
        request = _acceptable(context, body)
        if sum(row.state not in ENDED for row in jobs.rows()) >= MOST_AT_ONCE:
            raise TooManyError(f"{MOST_AT_ONCE} exports are under way; wait for one, or cancel one.")
        return jobs.start(request, working_folder=_working_folder(context, request))

    @router.get("/exports")
    def list_exports(
        run: Annotated[str | None, Query(max_length=200, description="Only exports of this run.")] = None,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
    ) -> list[ExportRow]:
        """List exports, newest first."""
        return jobs.rows(run)[:limit]

    @router.get("/exports/{ref}")
    def show_export(ref: str) -> ExportRow:
        """Show the settings, progress, comparisons and files of an export."""
        return jobs.row(ref)

    @router.post("/exports/{ref}/cancel")
    def cancel_export(ref: str) -> ExportRow:
        """End it without a file; one that has ended stays as it is. Returns at once."""
        return jobs.cancel(ref, wait=False)

    @router.delete("/exports/{ref}", status_code=204)
    def delete_export(ref: str) -> None:
        """Delete it from the history, with the files in its own folder."""
        jobs.delete(ref)

    @router.get("/exports/{ref}/log")
    def log_of_export(
        ref: str,
        after: Annotated[int | None, Query(ge=0, lt=2**63, description="Byte to begin at; default: the end.")] = None,
        size: Annotated[int, Query(ge=1, le=1_000_000, description="Most bytes.")] = 65_536,
        stream: Annotated[Stream, Query(description="Which output of the export.")] = "stdout",
    ) -> LogPart:
        """Return what the export printed."""
        return jobs.log(ref, after, size, stream)

    @router.get("/exports/{ref}/files/{name}", response_class=FileResponse, responses=_FILE)
    def download(ref: str, name: str) -> FileResponse:
        """Return a file that the export wrote, by its name; one that was changed since is refused."""
        path = jobs.file(ref, name)
        return FileResponse(path, media_type="application/octet-stream", filename=path.name)

    return router


def _acceptable(context: ServerContext, body: bytes) -> ExportRequest:
    """Return the request in the body, if this server carries it out."""
    try:
        document = read_json(body.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"The body is not a JSON document: {error}.") from error
    if not isinstance(document, dict):
        raise FormatError("The body is not a JSON object with 'run'.")
    request = parse_export(document)
    if request.out is not None:
        context.programs.check_place(request.out)
    if request.run.startswith("checkpoint:"):
        context.programs.check_checkpoint(request.run)
        return request
    try:
        folder = context.folder(request.run)
    except UnknownNameError as error:  # of a name in the request, not of its URL
        raise InputError(str(error)) from error
    if foreign(folder):  # its configuration came from outside, as that of a request does
        context.programs.check_run(folder.read_config())
    return request


def _working_folder(context: ServerContext, request: ExportRequest) -> str | None:
    """Return where the run was submitted from: its `python:` modules are looked up there; None: the server's own."""
    if request.run.startswith("checkpoint:"):
        return None
    return read_state(context.folder(request.run)).working_folder
