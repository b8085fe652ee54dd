"""TCP connection to a game: waiting for it, and exchanging messages, each within a bound."""

from __future__ import annotations

import select
import socket
from contextlib import suppress
from pathlib import Path
from time import monotonic, time
from typing import IO, NoReturn, Protocol

from mosaic.core.errors import InputError
from mosaic.envs.godot.messages import (
    HEADER,
    CallReply,
    GameError,
    GameInfo,
    Reply,
    ResetReply,
    StepReply,
    frame,
    parse,
    payload_size,
)
from mosaic.envs.godot.options import DEFAULT_PORT, MOST_PORTS

_CHUNK = 1 << 16
_LOOK_EVERY_S = 0.5  # whether a game that has not connected is still alive
_ASKED: dict[type, str] = {GameInfo: "env_info", ResetReply: "reset", StepReply: "action", CallReply: "call"}


class Watched(Protocol):
    """The process behind a connection, if Mosaic started it."""

    @property
    def output(self) -> int | None: ...  # descriptor to poll, so that the process never blocks while it prints

    def drain(self) -> bool: ...  # read what it printed; False: nothing more will come

    def ended(self) -> bool: ...

    def postmortem(self) -> str: ...  # its exit code and last lines, or "" where neither is known


def listen(host: str, port: int | None, *, exact: bool) -> socket.socket:
    """Return a listening socket; `exact`: on this port or not at all, otherwise on the next free one.

    Without a port, the system chooses one.
    """
    ports = (0,) if port is None else range(port, min(port + (1 if exact else MOST_PORTS), 65536))
    for each in ports:
        try:
            return _bound(host, each)
        except OSError as error:
            if isinstance(error, socket.gaierror) or error.errno is None:
                raise InputError(f"'{host}' is not an address of this machine: {error.strerror}.") from error
            failure = error
    if port is None:
        raise InputError(f"Mosaic cannot listen on {host}: {failure.strerror}.") from failure
    advice = f"End it, or choose another port: --set environment.options.port={(port or DEFAULT_PORT) + 1}"
    raise InputError(
        f"Mosaic cannot wait for a game on {host}:{port}: {failure.strerror}. Another program, perhaps another run of "
        f"Mosaic, is probably listening there. {advice} (and start the game with --port={port + 1})."
    ) from failure


def _bound(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(1)
    except BaseException:
        listener.close()
        raise
    return listener


def accept(listener: socket.socket, limit_s: float | None, game: Watched | None) -> socket.socket:
    """Wait for a game to connect; raise GameError if it dies first, or after the limit."""
    deadline = None if limit_s is None else monotonic() + limit_s
    poll = select.poll()
    poll.register(listener, select.POLLIN)
    if game is not None and game.output is not None:
        poll.register(game.output, select.POLLIN)
    while True:
        left_s = _LOOK_EVERY_S if deadline is None else min(_LOOK_EVERY_S, deadline - monotonic())
        if left_s <= 0:
            said = game.postmortem() if game else ""
            raise GameError(
                f"No game connected to port {listener.getsockname()[1]} within {limit_s:g} s. Does its scene have a "
                f"Sync node in training mode? {said}".rstrip()
            )
        ready = [fd for fd, _ in poll.poll(left_s * 1000)]
        if listener.fileno() in ready:
            return listener.accept()[0]
        if game is not None and ready and not game.drain():
            poll.unregister(ready[0])
        if game is not None and game.ended():
            raise GameError(f"The game ended before it connected. {game.postmortem()}".rstrip())


class Connection:
    """Connected game; every answer must come within `timeout_s`. Close it when done."""

    def __init__(self, sock: socket.socket, game: Watched | None, timeout_s: float, log: str | None) -> None:
        self._socket, self._game, self._timeout_s = sock, game, timeout_s
        self._port, self._fd = sock.getsockname()[1], sock.fileno()
        self._unread = b""
        self._failed = ""
        sock.setblocking(False)
        with suppress(OSError):  # the game has gone already, of which macOS tells here: the first message fails
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        if game is not None and game.output is not None:
            self._poll.register(game.output, select.POLLIN)
        try:
            self._log = _open_log(log)
        except InputError:
            sock.close()
            raise

    def send(self, message: dict[str, object]) -> None:
        """Send a message; raise GameError if the game is gone or does not read it."""
        if self._failed:
            raise GameError(self._failed)
        data = frame(message)
        if self._log is not None:
            _write_log(self._log, self._port, ">", data[HEADER.size :])
        sent = self._send_some(data)
        if sent < len(data):
            self._send_rest(data[sent:])

    def receive(self, kind: type[Reply]) -> Reply:
        """Return the answer to what was sent; raise GameError if none comes or it is another one."""
        if self._failed:
            raise GameError(self._failed)
        try:
            payload = self._read(_ASKED[kind])
            if self._log is not None:
                _write_log(self._log, self._port, "<", payload)
            return parse(payload, kind)
        except GameError as error:
            self.fail(error)

    def usable(self) -> bool:
        """Return whether the game is still there; only if nothing was asked."""
        return not self.failed and not self._poll.poll(0)

    def configure(self, timeout_s: float, log: str | None) -> None:
        """Change how long to wait and where to log, for a connection that is used again."""
        if self._log is not None:
            self._log.close()
        self._timeout_s, self._log = timeout_s, _open_log(log)

    @property
    def failed(self) -> bool:
        return bool(self._failed)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._failed = self._failed or "The connection to the game is closed."
        self._socket.close()
        if self._log is not None:
            self._log.close()
            self._log = None

    def fail(self, error: GameError) -> NoReturn:
        """Raise the error, now and whenever the connection is used again."""
        self._failed = str(error)
        raise error

    def _send_some(self, data: bytes) -> int:
        """Return how many bytes the system took; usually all."""
        try:
            return self._socket.send(data)
        except BlockingIOError:
            return 0
        except OSError:  # macOS has EPROTOTYPE too for a connection that is being closed
            self._closed("a message")

    def _send_rest(self, data: bytes) -> None:
        deadline = monotonic() + self._timeout_s
        while data:
            self._wait_to_send(deadline)
            data = data[self._send_some(data) :]

    def _read(self, asked: str) -> bytes:
        """Return the next message, without its header; all of it usually comes at once."""
        deadline = monotonic() + self._timeout_s
        data = self._unread or self._receive_some(deadline, asked)
        while len(data) < HEADER.size:
            data += self._receive_some(deadline, asked)
        end = HEADER.size + payload_size(data)
        if len(data) == end:
            self._unread = b""
            return data[HEADER.size :]
        if len(data) < end:
            data = self._read_rest(data, end, deadline, asked)
        self._unread = data[end:]
        return data[HEADER.size : end]

    def _read_rest(self, data: bytes, end: int, deadline: float, asked: str) -> bytes:
        parts, size = [data], len(data)
        while size < end:
            parts.append(self._receive_some(deadline, asked))
            size += len(parts[-1])
        return b"".join(parts)

    def _receive_some(self, deadline: float, asked: str) -> bytes:
        """Return what the game has sent, at least one byte; read what it prints meanwhile."""
        while True:
            ready = self._poll.poll(max(deadline - monotonic(), 0.0) * 1000)
            if not ready:
                self._late(f"did not answer to '{asked}'")
            if ready[0][0] == self._fd:
                try:
                    chunk = self._socket.recv(_CHUNK)
                except BlockingIOError:  # a packet that was damaged on its way
                    continue
                except ConnectionError:
                    chunk = b""
                return chunk or self._closed(f"'{asked}'")
            self._drain(ready[0][0])

    def _wait_to_send(self, deadline: float) -> None:
        self._poll.modify(self._fd, select.POLLOUT)
        ready = self._poll.poll(max(deadline - monotonic(), 0.0) * 1000)
        self._poll.modify(self._fd, select.POLLIN)
        if not ready:
            self._late("did not read what Mosaic sent")
        if ready[0][0] != self._fd:
            self._drain(ready[0][0])

    def _drain(self, output: int) -> None:
        assert self._game is not None  # its output is what was polled
        if not self._game.drain():
            self._poll.unregister(output)

    def _late(self, what: str) -> NoReturn:
        said = self._game.postmortem() if self._game else ""
        advice = "If it needs longer, type: --set environment.options.timeout_s=300"
        self.fail(GameError(f"The game {what} within {self._timeout_s:g} s. {advice} {said}".rstrip()))

    def _closed(self, asked: str) -> NoReturn:
        said = self._game.postmortem() if self._game else "Was it stopped in the editor?"
        self.fail(GameError(f"The game closed the connection instead of answering {asked}. {said}".rstrip()))


def _write_log(log: IO[str], port: int, direction: str, payload: bytes) -> None:
    text = payload.decode(errors="backslashreplace").replace("\n", " ")
    log.write(f"{time():.6f} {port} {direction} {text}\n")


def _open_log(path: str | None) -> IO[str] | None:
    if path is None:
        return None
    try:
        return Path(path).expanduser().open("a", encoding="utf-8", buffering=1)
    except OSError as error:
        raise InputError(f"The log of messages cannot be written to {path}: {error.strerror}.") from error
