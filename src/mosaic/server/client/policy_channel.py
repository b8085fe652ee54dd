"""Connection to a policy server: a WebSocket, or HTTP for programs that have none."""

from __future__ import annotations

import http.client
import ssl
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from time import monotonic
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast
from urllib.parse import urlsplit

from mosaic.core.errors import FormatError, MissingExtraError, MosaicError, shown
from mosaic.policies.serving.messages import BINARY_TYPE, JSON_TYPE, STATUS, CallError, ErrorCode, encode, read_document
from mosaic.server.client.address import UnreachableError, check_url

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

LARGEST_REPLY = 16 << 20  # bytes
_KEEPALIVE_S = 2.0  # servers close idle connections: one must not be reused in that instant
_PLAIN = (404, 405, 501)  # statuses of programs that do not describe themselves
Transport: TypeAlias = Literal["websocket", "http"]
Fields: TypeAlias = dict[str, Any]


class EpisodeLostError(CallError):
    """Error for an episode that the server no longer knows: it was restarted, or dropped the episode. Start another."""


class PolicyServerTimeoutError(MosaicError):
    """Error for a reply that did not arrive in time."""


class Channel:
    """Connection to a policy server, opened when it is needed and again after it was lost.

    A token that is not given is looked up, and sent, only where the server asks for one.
    """

    def __init__(
        self,
        address: str,
        find_token: Callable[[str], str],
        *,
        token: str | None = None,
        transport: Transport | None = None,
    ) -> None:
        """Use the transport that is named, or else what the server says it has."""
        self.address, self._find_token = check_url(address), find_token
        self._url, self._transport = urlsplit(self.address), transport
        self._token, self._use_token = token, token is not None
        self._binary = transport is not None
        self._lock = threading.Lock()
        self._http: http.client.HTTPConnection | None = None
        self._used = 0.0
        self._socket: ClientConnection | None = None
        self._opened = ExitStack()

    def call(self, name: str, fields: Fields, deadline: float) -> Mapping[str, Any]:
        """Send one call and return its reply; raise CallError if the server refuses it."""
        return checked(self.send(call_document(name, fields), deadline), self.address)

    def send(self, document: Any, deadline: float) -> Any:
        with self._lock:
            if self._transport is None:
                self._choose(deadline)
            try:
                if self._transport == "websocket":
                    return self._converse(document, deadline)
                path = "calls" if isinstance(document, list) else document["call"]
                return self._post(f"/policy/{path}", document, deadline)
            except BaseException:
                self._drop()
                raise

    def describe(self, deadline: float) -> Mapping[str, Any] | None:
        """Return how the server describes itself; None for a program that only carries out calls."""
        with self._lock:
            return self._describe(deadline)

    def close(self) -> None:
        with self._lock:
            self._drop()

    def _describe(self, deadline: float) -> Mapping[str, Any] | None:
        status, body = self._exchange("GET", "/policy", b"", deadline)
        if status in _PLAIN:
            return None
        found = self._read(body, binary=False)
        if status != 200 or not isinstance(found, dict):
            raise _refused(found, self.address, status)
        return found

    def _choose(self, deadline: float) -> None:
        found = self._describe(deadline) or {}
        self._binary = BINARY_TYPE in found.get("encodings", ())
        self._transport = "websocket" if self._binary and found.get("stream") == "/policy/stream" else "http"

    def _post(self, path: str, document: Any, deadline: float) -> Any:
        status, body = self._exchange("POST", path, encode(document, binary=self._binary), deadline)
        found = self._read(body, binary=self._binary)
        if status != 200 and not (isinstance(found, dict) and "error" in found):
            raise _refused(found, self.address, status)
        return found

    def _exchange(self, method: str, path: str, body: bytes, deadline: float) -> tuple[int, bytes]:
        status, reply = self._once(method, path, body, deadline)
        if status == 401 and not self._use_token:
            self._use_token = True
            status, reply = self._once(method, path, body, deadline)
        return status, reply

    def _once(self, method: str, path: str, body: bytes, deadline: float) -> tuple[int, bytes]:
        kind = BINARY_TYPE if self._binary and method == "POST" else JSON_TYPE
        headers = {"Content-Type": kind, "Accept": kind, **self._authorization()}
        try:
            idle = monotonic() - self._used > _KEEPALIVE_S
            connection = self._connect(deadline) if self._http is None or idle else self._http
            connection.timeout = _left(deadline)
            if connection.sock is not None:
                connection.sock.settimeout(connection.timeout)
            connection.request(method, f"{self._url.path}{path}", body, headers)
            response = connection.getresponse()
            found = bytearray()
            while part := response.read1(1 << 16):
                found += part
                if len(found) > LARGEST_REPLY:
                    raise FormatError(f"{self.address} replied with more than {LARGEST_REPLY} bytes.")
                if connection.sock is not None:
                    connection.sock.settimeout(_left(deadline))
            response.close()  # the connection can be used again
            if response.will_close:
                self._drop()
            self._used = monotonic()
            return response.status, bytes(found)
        except TimeoutError as error:
            raise PolicyServerTimeoutError(f"{self.address} did not reply in time.") from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _connect(self, deadline: float) -> http.client.HTTPConnection:
        self._drop()
        host, port, left = self._url.hostname or "", self._url.port, _left(deadline)
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            self._http = http.client.HTTPSConnection(host, port, timeout=left, context=context)
        else:
            self._http = http.client.HTTPConnection(host, port, timeout=left)
        return self._http

    def _converse(self, document: Any, deadline: float) -> Any:
        from websockets.exceptions import ConnectionClosed

        socket, fresh = (self._open(deadline), True) if self._socket is None else (self._socket, False)
        self._socket = socket
        try:
            socket.send(encode(document, binary=True))
            body = socket.recv(_left(deadline), decode=False)
        except TimeoutError as error:
            raise PolicyServerTimeoutError(f"{self.address} did not reply in time.") from error
        except (ConnectionClosed, OSError) as error:
            if fresh:
                raise self._unreachable(error) from error
            raise EpisodeLostError(
                "episode_lost",
                f"The connection to {self.address} was lost, and the episodes begun on it too. Start another one.",
            ) from error
        return self._read(body, binary=True)

    def _open(self, deadline: float) -> ClientConnection:
        try:
            from websockets.exceptions import InvalidHandshake, InvalidStatus
            from websockets.sync.client import connect
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                "The WebSocket of a policy server needs the package 'websockets'. Type: pip install 'mosaic-rl[web]', "
                "or use transport='http'."
            ) from error
        while True:
            try:
                connection = connect(
                    f"ws{self.address.removeprefix('http')}/policy/stream",
                    additional_headers=self._authorization(),
                    open_timeout=_left(deadline),
                    compression=None,
                    max_size=LARGEST_REPLY,
                    proxy=None,
                )
                return self._opened.enter_context(connection)
            except InvalidStatus as error:
                if error.response.status_code == 401 and not self._use_token:
                    self._use_token = True
                    continue
                body = bytes(error.response.body or b"")
                raise _refused(self._read(body, binary=False), self.address, error.response.status_code) from error
            except (OSError, EOFError, InvalidHandshake) as error:
                raise self._unreachable(error) from error

    def _authorization(self) -> dict[str, str]:
        if not self._use_token:
            return {}
        if self._token is None:
            self._token = self._find_token(self.address)
        return {"Authorization": f"Bearer {self._token}"}

    def _read(self, body: bytes, *, binary: bool) -> Any:
        try:
            return read_document(body, binary=binary)
        except FormatError as error:
            raise FormatError(
                f"{self.address} replied with {shown(body[:200])}, which cannot be read: {error}"
            ) from error

    def _unreachable(self, error: Exception) -> UnreachableError:
        return UnreachableError(f"{self.address} cannot be reached: {str(error) or type(error).__name__}.")

    def _drop(self) -> None:
        if self._http is not None:
            self._http.close()
        self._opened.close()
        self._http = self._socket = None


def call_document(name: str, fields: Fields) -> Fields:
    return {"call": name, **{key: value for key, value in fields.items() if value is not None}}


def _left(deadline: float) -> float:
    return max(deadline - monotonic(), 0.001)


def checked(reply: Any, address: str) -> Mapping[str, Any]:
    if not isinstance(reply, dict):
        raise FormatError(f"{address} replied with {shown(reply)}, where an object belongs.")
    if "error" in reply:
        raise _refused(reply, address, reply.get("status", 400))
    return reply


def _refused(reply: Any, address: str, status: int) -> MosaicError:
    """Return the error that a reply reports, with the server's address."""
    facts = reply if isinstance(reply, dict) else {"error": shown(reply)}
    text, code = f"{address}: {facts.get('error')}", str(facts.get("code"))
    if code not in STATUS:
        return CallError("refused", f"{text} (status {status})", status=status)
    known = {name: facts.get(name) for name in ("agent", "sent", "expected")}
    kind = EpisodeLostError if facts.get("retry") == "episode" else CallError
    return kind(cast(ErrorCode, code), text, status=status, **known)
