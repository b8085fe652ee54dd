"""Pages of the web app, their registration with the server's app, and the login that requests of browsers need."""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import re
from collections.abc import Callable, Sequence
from functools import partial, wraps
from importlib import import_module
from pathlib import Path
from typing import NoReturn, TypeAlias
from urllib.parse import parse_qsl, urlencode

from fastapi import FastAPI
from starlette.datastructures import Headers
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import HTMLResponse, RedirectResponse
from starlette.routing import BaseRoute, Match, NoMatchFound, compile_path
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mosaic.core.errors import MosaicError
from mosaic.server.auth.guard import with_security_headers
from mosaic.server.auth.hosts import AllowedHosts
from mosaic.server.auth.token import COOKIE, ensure_token, same_secret
from mosaic.server.context import ServerContext
from mosaic.store.atomic import private_folder

_REMEMBER_S = 30 * 24 * 3600


class PageRoute(BaseRoute):
    """Route before those of the API that matches only when a browser opens an address."""

    def __init__(self, pages: ASGIApp, paths: Sequence[str]) -> None:
        self._pages = pages
        self._patterns = [compile_path(path)[0] for path in paths]

    def matches(self, scope: Scope) -> tuple[Match, dict[str, object]]:
        wanted = wants_page(scope) and any(pattern.match(scope["path"]) for pattern in self._patterns)
        return (Match.FULL if wanted else Match.NONE), {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._pages(scope, receive, send)

    def url_path_for(self, name: str, /, **path_params: object) -> NoReturn:
        raise NoMatchFound(name, path_params)  # pages have addresses, not names


def wants_page(scope: Scope) -> bool:
    """Return whether a browser opens an address: it accepts HTML then; `fetch` and programs do not."""
    if scope["type"] != "http" or scope["method"] not in ("GET", "HEAD"):
        return False
    return "text/html" in Headers(scope=scope).get("accept", "")


class LoginMiddleware:
    """Middleware outside the server's authentication, which still checks every request."""

    def __init__(self, app: ASGIApp, *, token: str, hosts: AllowedHosts) -> None:
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not wants_page(scope):
            await self._app(scope, receive, send)
            return
        send = with_security_headers(send)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        given = next((value.strip() for name, value in query if name == "token"), None)
        if given is None or not self._hosts.allow(Headers(scope=scope).get("host", "")):
            await _PageRequest(self._app, scope, receive, send).respond()
        elif same_secret(given, self._token):
            await self._enter(scope, query)(scope, receive, send)
        else:
            await _login_form(wrong=True)(scope, receive, send)

    def _enter(self, scope: Scope, query: list[tuple[str, str]]) -> RedirectResponse:
        """Redirect to the same address without the token, which keeps it out of the history and of copied links."""
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        path = "/" + scope["path"].lstrip("/")  # two slashes would name another host
        response = RedirectResponse(f"{path}?{rest}" if rest else path, 303, {"Referrer-Policy": "no-referrer"})
        response.set_cookie(
            COOKIE, self._token, _REMEMBER_S, httponly=True, samesite="lax", secure=scope["scheme"] == "https"
        )
        return response


class _PageRequest:
    """One page request, whose JSON response to a missing token is replaced by a login page."""

    def __init__(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        self._app, self._scope, self._receive, self._send = app, scope, receive, send
        self._refused = False

    async def respond(self) -> None:
        await self._app(self._scope, self._receive, self._pass_on)
        if self._refused:
            await _login_form(wrong=False)(self._scope, self._receive, self._send)

    async def _pass_on(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] == 401:
            self._refused = True
        if not self._refused:
            await self._send(message)


def _login_form(*, wrong: bool) -> HTMLResponse:
    said = "That token is not valid for this server." if wrong else "This page requires a token."
    return HTMLResponse(_PAGE.replace("SAID", said), 401, {"Referrer-Policy": "no-referrer"})


_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Token · Mosaic</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>
:root{color-scheme:light dark}body{font:15px/1.55 system-ui,sans-serif;margin:0;min-height:100vh;display:grid;
place-items:center;background:light-dark(#f7f8f8,#0c0e11);color:light-dark(#16191d,#e9ebee)}
main{width:min(460px,calc(100vw - 32px));box-sizing:border-box;padding:24px;border-radius:8px;
border:1px solid light-dark(#e4e7ea,#22272e);background:light-dark(#fff,#13161a)}h1{font-size:18px;margin:0 0 8px}
p{margin:0 0 12px;color:light-dark(#505963,#a6afba)}code{font-size:13px}label{display:block;margin:16px 0 6px}
input{font:inherit;width:100%;box-sizing:border-box;padding:8px 10px;border-radius:6px;background:transparent;
border:1px solid light-dark(#ccd2d8,#333b45);color:inherit}button{font:inherit;font-weight:600;margin-top:12px;
padding:8px 16px;border:0;border-radius:6px;background:light-dark(#0a7a6c,#2dbfab);color:light-dark(#fff,#03211d)}
:focus-visible{outline:2px solid light-dark(#0a7a6c,#2dbfab);outline-offset:2px}</style></head><body><main>
<h1>SAID</h1><p>Open the link that <code>mosaic serve</code> printed, or paste the token here. It is in the file
<code>token</code> of the server's <code>$MOSAIC_HOME</code>.</p>
<form method="get"><label for="token">Token</label><input id="token" name="token" type="password" required autofocus
autocomplete="off"><button>Open Mosaic</button></form></main></body></html>"""


Page: TypeAlias = Callable[..., object]
PAGES = {  # address → the module whose `page(frame, …)` draws it
    "/": "pages.home",
    "/train": "pages.train.page",
    "/runs": "pages.runs",
    "/runs/{run_id}": "pages.run.page",
    "/tune": "pages.tune",
    "/play": "pages.play",
    "/replay": "pages.replay",
    "/demos": "pages.demos",
    "/evaluate": "pages.evaluate.page",
    "/ladder": "pages.ladder",
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

    logging.getLogger("nicegui").addFilter(_without_query)

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

    from mosaic.ui.web.page_api import add_form_routes, add_series_routes

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
        dark=None,  # as the operating system prefers, until a viewer chooses
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


def _without_query(record: logging.LogRecord) -> bool:
    """Remove the query from an address that NiceGUI logs when it has no page for it: it may hold the token."""
    record.msg = re.sub(r"\?\S*", "", str(record.msg))
    return True


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
