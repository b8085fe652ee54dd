"""Routes for runs: submit, list, show, and commands."""

from __future__ import annotations

import hashlib
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Body, Depends, Header, Query, Request, Response
from starlette.background import BackgroundTask
from starlette.responses import FileResponse

from mosaic.config.file_formats import read_json
from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import FormatError, InputError, MosaicError, UnknownNameError
from mosaic.runs.lifecycle import LONGEST_PATIENCE_S
from mosaic.runs.resume_settings import with_changes
from mosaic.server.context import ServerContext
from mosaic.server.env_trial import check_environment
from mosaic.server.queue.policy import demand_of, too_much
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.trust import foreign
from mosaic.store.labels import LabelChange, make_change
from mosaic.store.run_folder import RunFolder, new_run_id
from mosaic.store.state import ENDED, State
from mosaic.store.views import RunDetails, RunRow, UnreadableRun, details_of, row_of, unreadable_runs

_CONFIG_BODY = {
    "requestBody": {
        "required": True,
        "description": "The run's configuration; `mosaic schema run` describes it.",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/RunConfig"}}},
    }
}
_LABELS_BODY = {
    "requestBody": {
        "required": True,
        "description": "Labels to change.",
        "content": {"application/json": {"schema": LabelChange.model_json_schema()}},
    }
}
_ARCHIVE: dict[int | str, dict[str, object]] = {200: {"content": {"application/gzip": {}}}}
LONGEST_KEY = 255
ANSWER_WITHIN_S = 30.0  # for a run that was sent a command
Patience = Annotated[
    float | None,
    Query(
        ge=0,
        le=LONGEST_PATIENCE_S,
        description="Seconds before a run that does not stop is killed; default: what its worker needs.",
    ),
]


OtherResources = Annotated[
    dict[str, object] | None,
    Body(embed=True, description="Settings of `resources` to resume the run with; only once it has ended."),
]

OtherSettings = Annotated[
    tuple[str, ...],
    Body(embed=True, description="Other settings as SECTION.KEY=VALUE, such as training.total_timesteps=2000000."),
]


class RunTakenError(MosaicError):
    """Error for a requested run id that already exists."""


class ConflictError(MosaicError):
    """Error for a command that does not fit the run's state."""


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(context: ServerContext) -> APIRouter:
    every = APIRouter(tags=["runs"])
    router = APIRouter(prefix="/runs", tags=["runs"])

    @every.get("/unreadable-runs")
    def unreadable() -> list[UnreadableRun]:
        """List runs that `/runs` leaves out, because their files are damaged or missing."""
        return unreadable_runs(context.store)

    @router.post("", status_code=201, openapi_extra=_CONFIG_BODY)
    def submit(
        response: Response,
        body: Annotated[bytes, Depends(_body)],
        idempotency_key: Annotated[str | None, Header(min_length=1, max_length=LONGEST_KEY)] = None,
        group: Annotated[str, Query(max_length=100, description="Runs that differ in their seed only share it.")] = "",
    ) -> RunDetails:
        """Queue a run. With a key, sending the same again returns the same run; without, it creates a new run."""
        config = _acceptable(context, body)
        if idempotency_key is None:
            folder = _queue(context, config, group)
        else:
            folder, made = _queue_once(context, config, group, idempotency_key, body)
            response.status_code = 201 if made else 200
        context.dispatcher.wake()
        return details_of(folder)

    @router.get("")
    def list_runs(
        state: Annotated[list[State] | None, Query(description="Only runs in one of these states.")] = None,
        tag: Annotated[list[str] | None, Query(description="Only runs with all of these tags.")] = None,
        group: str | None = None,
        project: Annotated[str | None, Query(max_length=100, description="Only runs of this project.")] = None,
        hidden: Annotated[bool, Query(description="Also runs that are hidden from lists.")] = False,
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    ) -> list[RunRow]:
        """List runs, newest first."""
        names = context.store.project_names(project)
        found = context.store.index.list(states=state or (), tags=tag or (), group=group, projects=names)
        return [row_of(run) for run in found if hidden or not run.hidden][:limit]

    @router.get("/{ref}")
    def show(ref: str) -> RunDetails:
        """Show the configuration, state, attempts and checkpoints of a run."""
        return details_of(context.folder(ref))

    @router.post("/{ref}/stop")
    def stop(ref: str, patience_s: Patience = None) -> RunDetails:
        """Ask the run to save and stop; it is killed if it does not stop within the patience. Returns at once."""
        run = context.run(ref)
        with _fitting_its_state():
            run.stop(patience_s, wait=False)
        return details_of(run.folder)

    @router.post("/{ref}/pause")
    def pause(ref: str) -> RunDetails:
        """Ask the run to pause at the end of its iteration. Returns at once."""
        run = context.run(ref)
        with _fitting_its_state():
            run.pause(wait=False)
        return details_of(run.folder)

    @router.post("/{ref}/resume")
    def resume(ref: str, resources: OtherResources = None, settings: OtherSettings = ()) -> RunDetails:
        """Continue a paused run, or start a new attempt of one that ended, with other settings if some are given."""
        run = context.run(ref)
        config = with_changes(run.config, resources or {}, settings)
        if foreign(run.folder):  # its configuration came from outside, as that of a request does
            context.programs.check_run(config)
        if resources or settings:
            context.programs.check_run(config, known=run.config)
            _refuse_too_much(context, config)
        if run.state in ENDED:
            context.dispatcher.check_room(run.folder, config)
        with _fitting_its_state():
            run.resume(ANSWER_WITHIN_S, resources=resources, settings=settings)
        return details_of(run.folder)

    @router.post("/{ref}/checkpoint")
    def checkpoint(ref: str) -> RunDetails:
        """Save at the end of the iteration, and return then."""
        run = context.run(ref)
        with _fitting_its_state():
            run.checkpoint(ANSWER_WITHIN_S)
        return details_of(run.folder)

    @router.patch("/{ref}", openapi_extra=_LABELS_BODY)
    def label(ref: str, body: Annotated[bytes, Depends(_body)]) -> RunDetails:
        """Change labels of the run, in any state; what the body leaves out stays."""
        run = context.run(ref)
        document = _json(body)
        if not isinstance(document, dict):
            raise FormatError("The body is not a JSON object with name, tags, add_tags, remove_tags, note or hidden.")
        run.label(make_change(**document))
        return details_of(run.folder)

    @router.get("/{ref}/archive", response_class=FileResponse, responses=_ARCHIVE)
    def archive(ref: str) -> FileResponse:
        """Return the run as one file, for `mosaic runs import`. A live run is refused: stop it first."""
        folder = context.folder(ref)
        place = Path(tempfile.mkdtemp(prefix="mosaic-archive-"))
        tidy = BackgroundTask(shutil.rmtree, place, ignore_errors=True)
        try:
            with _fitting_its_state():
                path = archive_run(folder, place / f"{folder.run_id}.tar.gz")
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        return FileResponse(path, media_type="application/gzip", filename=path.name, background=tidy)

    @router.delete("/{ref}", status_code=204)
    def delete(ref: str) -> None:
        """Delete the folder and everything in it. A live run is refused: stop it first."""
        run = context.run(ref)
        with _fitting_its_state():
            run.delete()

    every.routes.extend(router.routes)
    return every


@contextmanager
def _fitting_its_state() -> Iterator[None]:
    """Turn InputError into ConflictError: the request is well formed, so the run's state must be the reason."""
    try:
        yield
    except InputError as error:
        raise ConflictError(str(error)) from error


def _json(body: bytes) -> object:
    try:
        return read_json(body.decode())
    except (ValueError, RecursionError) as error:
        raise FormatError(f"The body is not a JSON document: {error}.") from error


def _acceptable(context: ServerContext, body: bytes) -> RunConfig:
    """Return the configuration in the body, if this server would run it."""
    config = parse_run_config(_json(body))
    context.programs.check_run(config)
    _refuse_too_much(context, config)
    check_environment(config.environment)
    return config


def _refuse_too_much(context: ServerContext, config: RunConfig) -> None:
    problem = too_much(demand_of(config, ""), context.settings.limits)
    if problem is not None:
        raise InputError(f"This run could never start: {problem}. Change 'resources'.")


def _queue(context: ServerContext, config: RunConfig, group: str) -> RunFolder:
    if config.run_id is not None and context.store.folder(config.run_id).exists():
        raise RunTakenError(f"There is already a run '{config.run_id}'. Choose another run_id, or leave it out.")
    try:
        return context.trainer.submit(config, start=False, group=group).folder
    except UnknownNameError as error:  # of a name in the configuration, not of the requested URL
        raise InputError(str(error)) from error


def _queue_once(context: ServerContext, config: RunConfig, group: str, key: str, body: bytes) -> tuple[RunFolder, bool]:
    """Return the key's run, and whether it was created now."""
    asked = hashlib.sha256(group.encode()).digest() + body
    with context.submissions.alone():
        run_id, fresh = context.submissions.claim(key, asked, lambda: config.run_id or _new_id(config))
        folder = context.store.folder(run_id)
        if not fresh and folder.exists():
            return folder, False
        try:
            return _queue(context, config.model_copy(update={"run_id": run_id}), group), True
        except MosaicError:
            context.submissions.forget(key)
            raise


def _new_id(config: RunConfig) -> str:
    return new_run_id(config.environment.id, time.time(), secrets.randbelow)
