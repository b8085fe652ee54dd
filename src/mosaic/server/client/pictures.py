"""Pictures of a run or session that a server sends."""

from __future__ import annotations

from contextlib import ExitStack

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from mosaic.core.errors import MosaicError
from mosaic.server.streams.shared import ENDED_CODE
from mosaic.store.state import State
from mosaic.telemetry.frames.reader import Frame, StreamState
from mosaic.telemetry.pictures.message import unpack

_AHEAD = 2  # one picture in transit while another is drawn


class RemotePictures:
    """Pictures from a server. Reading never waits: what has arrived is taken, and as many more are requested."""

    def __init__(self, socket: ClientConnection) -> None:
        self._open = ExitStack()
        self._socket = self._open.enter_context(socket)
        self.state: StreamState = "waiting"
        self._over = False
        for _ in range(_AHEAD):
            self._socket.send("next")

    def newest(self) -> Frame | None:
        frame = None
        while not self._over:
            try:
                message = self._socket.recv(0)
                assert isinstance(message, bytes)
                arrived = unpack(message)
                self.state = arrived.facts.state
                if arrived.picture:
                    frame = arrived.frame()
                    self._socket.send("next")
            except TimeoutError:
                break
            except ConnectionClosed as closed:
                self._end(closed)
        return frame

    def close(self) -> None:
        self._over = True
        self._open.close()

    def _end(self, closed: ConnectionClosed) -> None:
        end = closed.rcvd
        if end is None or end.code != ENDED_CODE:
            raise MosaicError(
                f"The server has stopped sending pictures: {end.reason if end and end.reason else closed}."
            )
        self._over = True
        self.state = "finished" if end.reason in (State.FINISHED, State.STOPPED) else "writer died"
