"""Routes for a file browser: the folders of the server's projects and runs, and configurations in them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Response

from mosaic.server.context import ServerContext
from mosaic.store.folders import FilePurpose, FolderRow, Folders

_LONGEST = 4096  # characters of a path


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/files", tags=["files"])

    def folders() -> Folders:
        projects = [row.folder for row in context.store.projects.rows() if row.state == "ok"]
        return Folders([context.store.runs, *map(Path, projects)])

    @router.get("")
    def show(folder: Annotated[str, Query(max_length=_LONGEST)] = "", purpose: FilePurpose = "config") -> FolderRow:
        """List a folder of a project or of the runs; without one, those that may be listed."""
        return folders().show(folder, purpose)

    @router.get("/config", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
    def config(file: Annotated[str, Query(max_length=_LONGEST)]) -> Response:
        """Return the text of a configuration file in one of these folders."""
        return Response(folders().read_config(file), media_type="text/plain")

    return router
