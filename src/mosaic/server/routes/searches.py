"""Routes for hyperparameter searches: list and show. Searches are started on the server's own machine."""

from __future__ import annotations

from fastapi import APIRouter

from mosaic.core.errors import InputError, UnknownNameError
from mosaic.runs.tuning.results import SearchDetails, list_searches, read_search
from mosaic.server.context import ServerContext


def routes(context: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/searches", tags=["searches"])

    @router.get("")
    def searches() -> list[SearchDetails]:
        """List searches, newest first."""
        return list_searches(context.store)

    @router.get("/{ref}")
    def show(ref: str) -> SearchDetails:
        """Show a search with its trials, best first, and which options mattered."""
        try:
            return read_search(context.store, ref)
        except InputError as error:
            raise UnknownNameError(str(error)) from error

    return router
