"""Connections of a viewer to a match: one in a process of this machine, or one on a server."""

from __future__ import annotations

import json
import struct
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Protocol, cast
from urllib.parse import quote

from mosaic.core.child_process import module_command
from mosaic.core.errors import MosaicError, UnknownNameError
from mosaic.core.ids import Json

if TYPE_CHECKING:
    from websockets.sync.client import ClientConnection

    from mosaic.server.client.client import Client

HEAD = struct.Struct("<cI")  # of a message from the process: its letter and its length
TEXT, PICTURE, ENDED = b"t", b"p", b"e"  # the last one's bytes are the reason
REPLAY, PLAY_ON = "replay", "play-on"  # arguments of a process that replays an episode, or plays on from its position
_PATIENCE_S = 5.0  # for a process whose viewer has left
_LAST_BYTES = 2000  # of what a process printed


class MatchOverError(MosaicError):
    """Error for a match that sends no more; its text is the reason."""


class MatchLink(Protocol):
    """Connection to a match. `receive` and `send` may be called in different threads."""

    def receive(self) -> str | bytes:
        """Wait for the next state or refusal (text), or picture (bytes); raise MatchOverError where none follows."""
        ...

    def send(self, message: Mapping[str, Json]) -> None:
        """Send a message of `server/play/messages.py`; one to a match that has ended is dropped."""
        ...

    def end(self) -> None:
        """End the match for everyone, and the connection."""
        ...

    def close(self) -> None: ...


class ProcessMatch:
    """Match in a new process, which ends with this connection; with the argument REPLAY, a replay; with PLAY_ON, a
    match from a position of one.
    """

    def __init__(self, request: Mapping[str, Json], *arguments: str) -> None:
        self._printed = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the connection
        self._process = subprocess.Popen(
            module_command("mosaic.server.play.process", *arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._printed,
            start_new_session=True,  # signals of the terminal are for the app
        )
        assert self._process.stdout is not None
        self._messages = _messages(self._process.stdout)
        self.send(request)

    def receive(self) -> str | bytes:
        for letter, data in self._messages:
            if letter == ENDED:
                raise MatchOverError(data.decode())
            return data.decode() if letter == TEXT else data
        raise MatchOverError(self._died())

    def send(self, message: Mapping[str, Json]) -> None:
        pipe = self._process.stdin
        assert pipe is not None
        with suppress(BrokenPipeError, ValueError):  # it has ended, or is closed
            pipe.write(json.dumps(message).encode() + b"\n")
            pipe.flush()

    def end(self) -> None:
        self.close()

    def close(self) -> None:
        """End the match; a process that does not end by itself is killed."""
        process = self._process
        with suppress(BrokenPipeError):
            process.stdin.close()  # type: ignore[union-attr]
        try:
            process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()  # type: ignore[union-attr]
        self._printed.close()

    def _died(self) -> str:
        code = self._process.wait()
        with suppress(ValueError):  # closed
            size = self._printed.seek(0, 2)
            self._printed.seek(max(0, size - _LAST_BYTES))
            lines = self._printed.read().decode(errors="replace").strip().splitlines()
            return f"The process of the match ended with exit code {code}: {lines[-1] if lines else 'it said nothing'}"
        return "The match was left."


def _messages(pipe: IO[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """Yield letter and bytes of each message until the pipe is closed."""
    while len(head := pipe.read(HEAD.size)) == HEAD.size:
        letter, length = HEAD.unpack(head)
        data = pipe.read(length)
        if len(data) < length:
            return
        yield letter, data


class ServerMatch:
    """Match on a server; it continues without this viewer."""

    def __init__(self, client: Client, match_id: str, owner_key: str = "") -> None:
        """Join a match; `owner_key` is from the reply that opened it."""
        self._client, self._id = client, match_id
        self._socket: ClientConnection = client.stream(f"/matches/{quote(match_id, safe='')}/stream")
        if owner_key:
            self.send({"type": "identify", "key": owner_key})

    def receive(self) -> str | bytes:
        from websockets.exceptions import ConnectionClosed

        try:
            return self._socket.recv()
        except ConnectionClosed as closed:
            end = closed.rcvd
            raise MatchOverError(
                end.reason if end and end.reason else f"The connection to the server was lost: {closed}"
            ) from closed

    def send(self, message: Mapping[str, Json]) -> None:
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            self._socket.send(json.dumps(message))

    def end(self) -> None:
        with suppress(UnknownNameError):  # it has ended
            self._client.send("DELETE", f"/matches/{quote(self._id, safe='')}")
        self.close()

    def close(self) -> None:
        self._socket.close()


def open_on_server(client: Client, request: Mapping[str, Json], path: str = "/matches") -> ServerMatch:
    """Open a match on a server and join it as its owner."""
    opened = cast(dict[str, str], client.send("POST", path, json=dict(request)).json())
    return ServerMatch(client, opened["match_id"], opened["owner_key"])
