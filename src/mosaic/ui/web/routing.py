"""Routing between pages and API: opening `/runs` in a browser shows a page, other requests get its data."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from nicegui import ui
from starlette.datastructures import Headers
from starlette.routing import BaseRoute, Match, compile_path
from starlette.types import ASGIApp, Receive, Scope, Send

from mosaic.ui.web.components.widgets import problem


class PageRoute(BaseRoute):
    """Route before those of the API that matches only when a browser opens an address."""

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
    """Return whether a browser opens an address: it accepts HTML then; `fetch` and programs do not."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


_LOG = logging.getLogger(__name__)


class Pages(ui.sub_pages):
    """Sub pages with helpful texts for unknown addresses and errors, in place of NiceGUI's."""

    def _render_404(self) -> None:
        ui.page_title("Not here · Mosaic")
        problem(f"There is no page at {self._address}. Pages are listed beside this one; Ctrl+K finds runs too.")

    def _render_error(self, error: Exception) -> None:
        _LOG.error("The page %s failed", self._address, exc_info=error)
        problem(f"The page failed: {type(error).__name__}: {error}. The server's terminal says where; load it again.")

    @property
    def _address(self) -> str:
        return str(ui.context.client.sub_pages_router.current_path)
