"""Routes for projects: list, show, create, rename, add a preset, and removal of an entry.

A request does not choose where the server reads or writes: a project is created in the server's own folder, and only
files of registered projects are changed. Another folder needs the permission of the server's owner.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict, Field

from mosaic.config.loading import parse_run_config
from mosaic.server.context import ServerContext
from mosaic.store.projects.project import add_preset
from mosaic.store.projects.registry import ProjectDetails, ProjectRow

_FOLDER = "projects"  # of the server's own projects
_LONGEST = 4096  # characters


class _Asked(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class NewProject(_Asked):
    name: str = Field(min_length=1, max_length=200)
    env: str | None = Field(None, max_length=_LONGEST, description="Environment of its runs.")
    folder: str | None = Field(
        None,
        max_length=_LONGEST,
        description="Folder of the server's machine, where its owner allows it; null: its own.",
    )


class NewName(_Asked):
    name: str = Field(min_length=1, max_length=200)


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/projects", tags=["projects"])
    registry = context.store.projects

    @router.get("")
    def list_projects() -> list[ProjectRow]:
        """List the known projects, the last used first; those whose folder is missing too."""
        return registry.rows()

    @router.post("", status_code=201)
    def create(asked: NewProject) -> ProjectDetails:
        """Create a project, in the server's own folder unless another is allowed."""
        if asked.env is not None:
            context.programs.check_run(parse_run_config({"environment": {"env_id": asked.env}}))
        if asked.folder is not None:
            context.programs.check_place(asked.folder)
        folder = context.store.home / _FOLDER / asked.name if asked.folder is None else Path(asked.folder)
        return registry.details(registry.create(folder, asked.name, env=asked.env).name)

    @router.get("/{name}")
    def show(name: str) -> ProjectDetails:
        """Show a registered project and its presets; nothing that they name is loaded."""
        return registry.details(name)

    @router.patch("/{name}")
    def rename(name: str, asked: NewName) -> ProjectDetails:
        """Rename a project in its file; its earlier runs are still found."""
        return registry.details(registry.rename(registry.row(name).name, asked.name).name)

    @router.post("/{name}/presets/{preset}", status_code=201)
    def save_preset(name: str, preset: str, settings: dict[str, object]) -> ProjectDetails:
        """Append a training preset to a project's mosaic.toml; code that the project does not name yet is refused."""
        project = registry.find(registry.row(name).name)
        own = next(iter(registry.details(project.name).settings.values()), {})
        known = parse_run_config(own) if "environment" in own else None
        context.programs.check_run(parse_run_config(settings), known)
        return registry.details(add_preset(project, preset, settings).name)

    @router.delete("/{name}", status_code=204)
    def forget(name: str) -> None:
        """Remove a project from the list; its folder and its runs stay."""
        registry.forget(registry.row(name).name)

    return router
