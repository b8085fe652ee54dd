"""The example game in the real engine, driven by a bare socket: no code of Mosaic is between."""

import json
import shutil
import socket
import struct
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest

ORCHARD = Path(__file__).parents[2] / "examples" / "godot" / "orchard3"
ENGINE = shutil.which("godot3-server")
SPEEDUP = 1000  # as fast as the engine can
needs_engine = pytest.mark.skipif(
    ENGINE is None, reason="godot3-server is not installed: sh scripts/system-packages.sh"
)


class RawGame:
    """A running game and the trainer's end of its connection."""

    def __init__(self, process, connection):
        self.process, self._socket = process, connection
        self._file = connection.makefile("rb")

    def send(self, **message):
        data = json.dumps(message).encode()
        self._socket.sendall(struct.pack("<I", len(data)) + data)

    def receive(self):
        (length,) = struct.unpack("<I", self._file.read(4))
        return json.loads(self._file.read(length))

    def ask(self, kind, **fields):
        self.send(type=kind, **fields)
        return self.receive()

    def act(self, *actions):
        return self.ask("action", action=[{"move": list(move), "act": act} for move, act in actions])

    def hang_up(self):
        self._file.close()
        self._socket.close()


@contextmanager
def raw_game(*arguments):
    """Start the game and shake hands."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        words = [ENGINE, "--path", ORCHARD, f"--port={server.getsockname()[1]}", f"--speedup={SPEEDUP}", *arguments]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            connection, _ = server.accept()
            with connection:
                connection.settimeout(30)
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                game = RawGame(process, connection)
                game.send(type="handshake", major_version="0", minor_version="7")
                yield game
        finally:
            process.kill()
            process.wait()
