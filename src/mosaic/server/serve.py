"""Start of the server, and its listening socket."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from mosaic.core.errors import InputError
from mosaic.server.app import create_app
from mosaic.server.auth.hosts import allowed_hosts, is_loopback
from mosaic.server.auth.token import read_token, token_file
from mosaic.server.client.address import DEFAULT_HOST, DEFAULT_PORT
from mosaic.server.context import DoctorFinding, ServerSettings
from mosaic.server.routes.policy import LARGEST_CALL
from mosaic.store.archives.trust import VARIABLE as TRUST
from mosaic.store.store import Store

REQUEST_WITHIN_S = 30.0  # from the first byte, or from the start of the connection, to the end of the headers
_NEW_OBJECTS = (
    50_000  # before a search for garbage; with Python's own 700, the messages of 64 clients cause one after another
)
_PATIENCE_S = 3  # for requests in progress when the server ends

if TYPE_CHECKING:
    from uvicorn.protocols.http.h11_impl import H11Protocol as _Protocol
else:
    _Protocol = AutoHTTPProtocol  # httptools where it is installed


class TimedProtocol(_Protocol):
    """Protocol that limits the time for a request's headers to arrive completely; uvicorn itself has no limit."""

    within_s = REQUEST_WITHIN_S
    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._wait_for_request()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.transport.get_protocol() is not self or self._is_busy():
            self._end_waiting()
        elif self._deadline is None:
            self._wait_for_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_waiting()
        super().connection_lost(exc)

    def _is_busy(self) -> bool:
        """Return whether a request's headers have arrived and its response is pending; the guard limits its body."""
        cycle: Any = self.cycle
        return cycle is not None and not cycle.response_complete

    def _wait_for_request(self) -> None:
        self._deadline = self.loop.call_later(self.within_s, self._give_up)

    def _end_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _give_up(self) -> None:
        self._deadline = None
        if not self._is_busy():
            self.transport.close()


class SteadyWebSocket(WebSocketsSansIOProtocol):
    """WebSocket that stops reading only while a message waits; uvicorn's stops and starts again for every message."""

    def send_receive_event_to_app(self) -> None:
        first = self.queue.empty() and not self.read_paused
        self.read_paused |= first  # uvicorn stops reading where this is False
        super().send_receive_event_to_app()
        if first:
            self.read_paused = False


class Listening(NamedTuple):
    """A server that accepts connections from now on, though it responds a moment later."""

    address: str
    token: str
    app: FastAPI
    end: Callable[[], None]

    def link(self, path: str, **query: str) -> str:
        """Return a link that a browser can open. The token in it is turned into a cookie."""
        return f"{self.address}{path}?{urlencode({**query, 'token': self.token})}"


def _say(text: str) -> None:
    print(text, flush=True)  # a parent process that reads through a pipe waits for the address


@dataclass(frozen=True, slots=True)
class ListenAddress:
    """Address to listen on."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT  # 0: a free one
    allow_public: bool = False  # whether other machines may reach it
    command: str = "serve"  # of `mosaic`, for messages

    def check(self) -> None:
        if not self.allow_public and not is_loopback(self.host):
            raise InputError(
                f"'{self.host}' can be reached from other machines. To reach this one from elsewhere, use ssh: "
                f"mosaic runs list --server ssh://HOST. If you do want a public server, type: mosaic {self.command} "
                f"--host {self.host} --allow-public"
            )


@dataclass(frozen=True, slots=True)
class Frontend:
    """Extensions that a user interface adds to the server: pages, messages and checks of this machine."""

    doctor: Callable[[], Iterable[DoctorFinding]] = tuple
    add_pages: Callable[[FastAPI], None] | None = None
    greet: Callable[[Listening], None] | None = None  # called as soon as the server listens
    say: Callable[[str], None] = _say


_API_ONLY = Frontend()


def serve(
    address: ListenAddress,
    home: Path | None = None,
    settings: ServerSettings | None = None,
    frontend: Frontend = _API_ONLY,
) -> None:
    """Serve until Ctrl-C. Runs continue; queued ones wait for the next server.

    The host names that requests may use follow from the address.
    """
    address.check()
    store, say = Store(home), frontend.say
    settings = replace(settings or ServerSettings(), hosts=allowed_hosts(address.host))
    confine(store.home, allow_programs=settings.allow_programs)
    listener = listen(address)
    with listener:
        app = create_app(store.home, settings, frontend.doctor)
        if frontend.add_pages is not None:
            frontend.add_pages(app)
        server = uvicorn.Server(server_config(app))
        listening = Listening(address_of(listener), read_token(store.home), app, lambda: _end(server))
        say(f"Mosaic listens on {listening.address}")
        if frontend.add_pages is not None:
            say(f"Open {listening.link('/')}")
        say(f"Its token is in {token_file(store.home)}; programs of this user find it there automatically.")
        if settings.allow_programs:
            say("Requests may name code and programs: anyone with the token can run anything as this user.")
        if frontend.greet is not None:
            frontend.greet(listening)
        run_server(server, listener)
    say("The server has ended. Active runs continue.")


def confine(home: Path, *, allow_programs: bool) -> None:
    """Prepare this process for requests: one that may not name programs does not run the code of foreign runs."""
    if not allow_programs:
        os.environ.pop(TRUST, None)
    os.environ["MOSAIC_HOME"] = str(home)  # `run:` policies of matches are found in the same store


def run_server(server: uvicorn.Server, listener: socket.socket) -> None:
    """Serve until Ctrl-C with rare garbage collections, which pause all requests; earlier objects are excluded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, *gc.get_threshold()[1:])
    with suppress(KeyboardInterrupt):  # the normal way to end a server
        server.run([listener])


def _end(server: uvicorn.Server) -> None:
    server.should_exit = True


def server_config(app: object) -> uvicorn.Config:
    return uvicorn.Config(
        app,  # type: ignore[arg-type]
        access_log=False,  # request URLs are private, and must not appear in logs
        log_config=None,  # its own would close the handlers of every other library in this process
        log_level="warning",
        http=TimedProtocol,
        ws=SteadyWebSocket,
        ws_max_size=LARGEST_CALL,
        ws_per_message_deflate=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )


def listen(address: ListenAddress) -> socket.socket:
    """Return a socket that accepts connections."""
    host, port = address.host, address.port
    try:
        family, kind, protocol, _, resolved = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, OverflowError) as error:
        raise InputError(f"'{host}' port {port} is not an address of this machine: {error}.") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(resolved)
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InputError(
            f"Mosaic cannot listen on {host} port {port}: {error}. "
            f"Type another: mosaic {address.command} --port {port + 1}"
        ) from error
    return listener


def address_of(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
