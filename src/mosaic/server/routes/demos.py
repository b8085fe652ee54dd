"""Routes for demonstrations: list, show, edit, delete, download and upload; `POST /replays` replays one."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.background import BackgroundTask

from mosaic.core.errors import InputError
from mosaic.runners.record import environment_of, episode_from_json
from mosaic.server.context import ServerContext
from mosaic.server.env_trial import check_environment
from mosaic.server.play.registry import Matches
from mosaic.server.schemas import ResponseModel
from mosaic.store.atomic import remove_folder
from mosaic.store.demos.editing import drop, drop_last, filter_by_return, trim
from mosaic.store.demos.summary import DemoDetails, DemoRow, demo_details, demo_rows
from mosaic.store.demos.transfer import export_demo, import_archive, import_episode

PREFIX = "/demos"
LARGEST_UPLOAD = 64 << 20  # bytes of a .zip file
_ZIP: dict[int | str, dict[str, Any]] = {200: {"content": {"application/zip": {}}}}
_UPLOAD = {
    "requestBody": {
        "required": True,
        "description": "A .zip file that GET /demos/{name}/archive returned.",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


class DemoList(ResponseModel):
    demonstrations: list[DemoRow] = Field(description="Newest first.")
    problems: list[str] = Field(description="Reasons why episodes of interrupted recordings could not be added.")


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Drop(_Asked):
    last: int | None = Field(None, ge=1, description="Number of episodes to drop at the end; 1 if both are null.")
    episodes: list[int] | None = Field(None, min_length=1, description="Numbers of episodes, from 0.")


class Trim(_Asked):
    episode: int | None = Field(None, ge=0, description="Number of the episode; the last one if null.")
    first: int = Field(0, ge=0, description="First env step to keep.")
    last: int | None = Field(None, ge=1, description="First env step not to keep; the end if null.")


class Filter(_Asked):
    agent: str | None = Field(None, description="Agent whose return counts; null: the only one.")
    min_return: float | None = None
    max_return: float | None = None


async def _body(request: Request) -> bytes:
    return await request.body()


def routes(context: ServerContext, matches: Matches) -> APIRouter:
    router = APIRouter(prefix=PREFIX, tags=["demonstrations"])
    store = matches.kept.demos

    @router.get("")
    def list_demos() -> DemoList:
        """List demonstrations; those that cannot be read are among the problems."""
        rows, problems = demo_rows(store)
        return DemoList(demonstrations=rows, problems=problems)

    @router.get("/{name}")
    def show_demo(name: str) -> DemoDetails:
        """Show the agents, controllers and episodes."""
        return demo_details(store, name)

    @router.delete("/{name}", status_code=204)
    def delete_demo(name: str) -> None:
        """Delete a demonstration with all its episodes."""
        store.delete(name)

    @router.post("/{name}/drop")
    def drop_episodes(name: str, asked: Drop) -> DemoDetails:
        """Drop the last episodes, or those with the given numbers."""
        if asked.episodes is not None and asked.last is not None:
            raise InputError("'episodes' names episodes and 'last' counts them from the end: leave out one of them.")
        if asked.episodes is None:
            drop_last(store, name, asked.last or 1)
        else:
            drop(store, name, set(asked.episodes))
        return demo_details(store, name)

    @router.post("/{name}/trim")
    def trim_episode(name: str, asked: Trim) -> DemoDetails:
        """Keep only some env steps of an episode."""
        trim(store, name, asked.episode, asked.first, asked.last)
        return demo_details(store, name)

    @router.post("/{name}/filter")
    def filter_episodes(name: str, asked: Filter) -> DemoDetails:
        """Keep only the episodes with a certain return."""
        filter_by_return(store, name, asked.agent, asked.min_return, asked.max_return)
        return demo_details(store, name)

    @router.post("/{name}/episodes", status_code=201)
    def add_episode(name: str, episode: dict[str, object]) -> DemoDetails:
        """Add a recorded episode, as `mosaic play --record` writes it; it is played again for its observations."""
        record = episode_from_json(episode)
        environment = environment_of(record)
        context.programs.check_match(environment, {})
        check_environment(environment)
        import_episode(store, name, record)
        return demo_details(store, name)

    @router.get("/{name}/archive", response_class=FileResponse, responses=_ZIP)
    def download(name: str) -> FileResponse:
        """Return a .zip file whose folders are Minari datasets."""
        folder = Path(mkdtemp(prefix="mosaic-demo-"))
        try:
            path = export_demo(store.open(name), folder / f"{name}.zip")
        except BaseException:
            remove_folder(folder)
            raise
        gone = BackgroundTask(remove_folder, folder)
        return FileResponse(path, media_type="application/zip", filename=path.name, background=gone)

    @router.post("/{name}/archive", status_code=201, openapi_extra=_UPLOAD)
    def upload(name: str, body: Annotated[bytes, Depends(_body)]) -> DemoDetails:
        """Add the episodes of a .zip file; everything in it is checked, and nothing in it is executed."""
        folder = Path(mkdtemp(prefix="mosaic-demo-"))
        try:
            path = folder / "upload.zip"
            path.write_bytes(body)
            import_archive(store, name, path)
        finally:
            remove_folder(folder)
        return demo_details(store, name)

    return router
