"""Page or document: a browser that opens `/runs` wants to see the runs, a program that asks for it wants their data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send


class PageRoute(BaseRoute):
    """Stands before the API's routes and takes only what a browser asks for when it opens an address."""

    def __init__(self, pages: ASGIApp, paths: Sequence[str]) -> None:
        self._pages = pages
        self._patterns = [compile_path(path)[0] for path in paths]

    def matches(self, scope: Scope) -> tuple[Match, dict[str, Any]]:
        wanted = wants_page(scope) and any(pattern.match(scope["path"]) for pattern in self._patterns)
        return (Match.FULL if wanted else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._pages(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: Any) -> Any:
        from starlette.routing import NoMatchFound

        raise NoMatchFound(name, path_params)  # pages have addresses, not names


def wants_page(scope: Scope) -> bool:
    """Browsers name HTML when they open an address; `fetch` and programs do not."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")
