"""Routes for projects: list, show, and removal of an entry.

Projects are created and opened on the server's own machine: a request must not choose where the server reads or writes.
"""

from __future__ import annotations

from fastapi import APIRouter

from mosaic.server.context import ServerContext
from mosaic.store.projects.registry import ProjectDetails, ProjectRow


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/projects", tags=["projects"])
    registry = context.store.projects

    @router.get("")
    def list_projects() -> list[ProjectRow]:
        """List the known projects, the last used first; those whose folder is missing too."""
        return registry.rows()

    @router.get("/{name}")
    def show(name: str) -> ProjectDetails:
        """Show a registered project and its presets; nothing that they name is loaded."""
        return registry.details(name)

    @router.delete("/{name}", status_code=204)
    def forget(name: str) -> None:
        """Remove a project from the list; its folder and its runs stay."""
        registry.forget(registry.row(name).name)

    return router
