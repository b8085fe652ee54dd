"""Middleware that checks host, origin, token and size of every request before anything reads it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from http.cookies import CookieError, SimpleCookie

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mosaic.server.auth.hosts import AllowedHosts, same_origin
from mosaic.server.auth.token import COOKIE, same_secret

LARGEST_BODY = 1_000_000  # bytes; a configuration has a few thousand
BODY_WITHIN_S = 30.0
_PAGE_POLICY = (  # NiceGUI compiles its components in the browser
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; font-src 'self' data:; worker-src 'self' blob:; media-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
_DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"
_NO_TOKEN = (
    "The token is missing or wrong. Send it as `Authorization: Bearer TOKEN`; it is in the file `token` of the "
    "server's $MOSAIC_HOME."
)
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class RefusedError(Exception):
    """Error for a request that is refused, with the status and the reason."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Guard:
    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        hosts: AllowedHosts,
        largest_body: int = LARGEST_BODY,
        larger: Mapping[str, int] | None = None,
        body_within_s: float = BODY_WITHIN_S,
    ) -> None:
        """Wrap the app; `larger` has the limits of bodies below some paths."""
        self._app, self._token, self._hosts, self._largest = app, token, hosts, largest_body
        self._larger = dict(larger or {})
        self._body_within_s = body_within_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        if scope["type"] == "http":
            send = with_security_headers(send)
        try:
            self._check(scope)
            if scope["type"] == "http":
                receive = await self._body_in_time(scope, receive)
        except RefusedError as refused:
            await _refuse(refused, scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        headers = Headers(scope=scope)
        host = _only(headers, "host")
        if not self._hosts.allow(host):
            raise RefusedError(421, "This server does not accept requests for that host name.")
        origins = headers.getlist("origin")
        if origins and not (len(origins) == 1 and same_origin(origins[0], host)):
            raise RefusedError(403, "Requests from the pages of other sites are refused.")
        by_header = self._has_header(headers)
        if not by_header and not self._has_cookie(headers):
            raise RefusedError(401, _NO_TOKEN)
        changes = scope["type"] == "websocket" or scope["method"] not in _SAFE
        if changes and not origins and not by_header:
            # A browser adds the cookie by itself, whichever page sends the request; it then names that page too.
            raise RefusedError(403, "With the cookie alone, a request must name its Origin.")

    def _has_header(self, headers: Headers) -> bool:
        given = headers.getlist("authorization")
        scheme, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return scheme.lower() == "bearer" and same_secret(token.strip(), self._token)

    def _has_cookie(self, headers: Headers) -> bool:
        return any(same_secret(value, self._token) for value in _cookies(headers.getlist("cookie")))

    async def _body_in_time(self, scope: Scope, receive: Receive) -> Receive:
        try:
            async with asyncio.timeout(self._body_within_s):
                return await self._whole_body(scope, receive)
        except TimeoutError:
            raise RefusedError(408, f"The body was not received within {self._body_within_s:g} s.") from None

    async def _whole_body(self, scope: Scope, receive: Receive) -> Receive:
        """Read the body up to the limit, however it is sent, and pass it on in one piece."""
        length = Headers(scope=scope).get("content-length")
        if length is not None and not (length.isascii() and length.isdigit()):
            raise RefusedError(400, "Content-Length is not a number.")
        largest = next((most for path, most in self._larger.items() if scope["path"].startswith(path)), self._largest)
        if length is not None and (len(length) > 20 or int(length) > largest):
            raise _too_large(largest)
        parts: list[bytes] = []
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return _once(message, receive)
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            more = message.get("more_body", False)
            if size > largest:
                raise _too_large(largest)
        return _once({"type": "http.request", "body": b"".join(parts), "more_body": False}, receive)


def _too_large(largest: int) -> RefusedError:
    return RefusedError(413, f"The body is larger than {largest} bytes.")


def with_security_headers(send: Send) -> Send:
    """Add the headers that keep browsers from framing a response, guessing its type, or loading foreign scripts."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            kind = headers.get("content-type", "")
            headers.setdefault("X-Content-Type-Options", "nosniff")
            headers.setdefault("X-Frame-Options", "DENY")
            headers.setdefault("Referrer-Policy", "same-origin")
            if kind.startswith("text/html"):
                headers.setdefault("Content-Security-Policy", _PAGE_POLICY)
            elif kind.startswith("application/json"):
                headers.setdefault("Content-Security-Policy", _DATA_POLICY)
        await send(message)

    return sending


def _only(headers: Headers, name: str) -> str:
    values = headers.getlist(name)
    if len(values) != 1:
        raise RefusedError(400, f"A request has exactly one {name.capitalize()}.")
    return values[0]


def _cookies(headers: Iterable[str]) -> list[str]:
    found: list[str] = []
    for header in headers:
        try:
            jar = SimpleCookie(header)
        except CookieError:
            continue  # a cookie that cannot be parsed grants nothing
        if COOKIE in jar:
            found.append(jar[COOKIE].value)
    return found


def _once(first: Message, rest: Receive) -> Receive:
    waiting: list[Message] = [first]

    async def receive() -> Message:
        return waiting.pop() if waiting else await rest()

    return receive


async def _refuse(refused: RefusedError, scope: Scope, receive: Receive, send: Send) -> None:
    headers = {"WWW-Authenticate": "Bearer"} if refused.status == 401 else {}
    if scope["type"] == "http":
        headers["Connection"] = "close"  # an unread body may still be arriving
    if scope["type"] == "http" or "websocket.http.response" in scope.get("extensions", {}):
        await JSONResponse({"error": str(refused)}, refused.status, headers)(scope, receive, send)
    else:
        await send({"type": "websocket.close", "code": 1008, "reason": str(refused)})
