"""Pages of the web app, and their registration with the server's app."""

from __future__ import annotations

import hashlib
import inspect
import os
from collections.abc import Callable
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from fastapi import FastAPI
from starlette.middleware.gzip import GZipMiddleware
from starlette.staticfiles import StaticFiles

from mosaic.core.errors import MosaicError
from mosaic.server.auth.token import ensure_token
from mosaic.server.context import ServerContext
from mosaic.store.atomic import private_folder
from mosaic.ui.web.page_requests import LoginMiddleware, PageRoute

Page: TypeAlias = Callable[..., object]
PAGES = {  # address → the module whose `page(frame, …)` draws it
    "/": "pages.home",
    "/train": "pages.train.page",
    "/runs": "pages.runs",
    "/runs/{run_id}": "pages.run.page",
    "/play": "pages.play",
    "/replay": "pages.replay",
    "/evaluate": "pages.evaluate.page",
    "/export": "pages.export.page",
}
_RECONNECT_S = 15.0  # a tab that is away for longer is reloaded, and what was typed into a form is lost
_COMPRESSION = 1  # of 9: a quarter of the time, a fifth larger
STATIC = Path(__file__).parent / "static"
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 20 20"><rect width="9" height="9" rx="2" fill="#888"/>'
    '<rect x="11" width="9" height="9" rx="2" fill="#bbb"/><rect y="11" width="9" height="9" rx="2" fill="#bbb"/>'
    '<rect x="11" y="11" width="9" height="9" rx="2" fill="#2dbfab"/></svg>'
)


def add_pages(app: FastAPI) -> None:
    """Register all pages.

    Call it last, as routes registered later are never reached, and once per process, as NiceGUI has a single app.
    """
    context: ServerContext = app.state.context
    folder = context.store.home / "web"
    private_folder(context.store.home)
    private_folder(folder)
    os.environ["NICEGUI_STORAGE_PATH"] = str(folder)  # read once, when nicegui is imported
    os.environ["MATPLOTLIB"] = "false"  # otherwise nicegui imports it, and nothing here uses it

    from nicegui import app as pages_app
    from nicegui import ui

    from mosaic.ui.web.components.layout import PageLayout, Pages
    from mosaic.ui.web.data.facts import Facts

    token = ensure_token(context.store.home)
    facts = Facts(context)
    views = _views(app, context)

    def root() -> None:
        """Build the page of one browser tab; pages change inside it without a reload and without a second socket."""
        frame = PageLayout(context, facts, set(views))
        with frame.content:
            Pages(views, data={"frame": frame})

    from mosaic.ui.web.form_api import add_form_routes
    from mosaic.ui.web.series_api import add_series_routes

    add_series_routes(app, context)
    add_form_routes(app, facts)
    app.mount("/static", StaticFiles(directory=STATIC))
    for sheet in sorted(STATIC.glob("*.css")):
        address = f"/static/{sheet.name}?v={int(sheet.stat().st_mtime)}"
        ui.add_head_html(f'<link rel="stylesheet" href="{address}">', shared=True)
    for script in ("shortcuts", "copying"):
        ui.add_head_html(f'<script src="/static/{script}.js" defer></script>', shared=True)
    ui.run_with(
        app,
        root=root,
        title="Mosaic",
        favicon=_ICON,
        dark=True,
        language="en-US",
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=_RECONNECT_S,
        show_welcome_message=False,
        gzip_middleware_factory=partial(GZipMiddleware, compresslevel=_COMPRESSION),
        storage_secret=hashlib.sha256(f"pages {token}".encode()).hexdigest(),
    )
    app.router.routes.insert(0, PageRoute(pages_app, tuple(views)))
    app.add_middleware(LoginMiddleware, token=token, hosts=context.settings.hosts)


def _views(app: FastAPI, context: ServerContext) -> dict[str, Page]:
    views: dict[str, Page] = {}
    for address, name in PAGES.items():
        module = import_module(f"mosaic.ui.web.{name}")
        views[address] = _explained(module.page)
        if hasattr(module, "add_routes"):
            module.add_routes(app, context)
    return views


def _explained(page: Page) -> Page:
    """Wrap a page so that a MosaicError is shown in its place."""
    from mosaic.ui.web.components.widgets import problem

    signature = inspect.signature(page, eval_str=True)  # NiceGUI needs types, not their names
    if inspect.iscoroutinefunction(page):

        @wraps(page)
        async def explained_later(*arguments: object, **named: object) -> None:
            try:
                await page(*arguments, **named)
            except MosaicError as error:
                problem(str(error))

        explained_later.__signature__ = signature  # type: ignore[attr-defined]
        return explained_later

    @wraps(page)
    def explained(*arguments: object, **named: object) -> None:
        try:
            page(*arguments, **named)
        except MosaicError as error:
            problem(str(error))

    explained.__signature__ = signature  # type: ignore[attr-defined]
    return explained
