"""The example game: its env, its messages, and bare connections to it."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray
from ppo_rows.measure import PeerMissing

from mosaic import make_env
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.env import Env
from mosaic.envs.godot.messages import HEADER, frame

FOLDER = Path(__file__).parents[2] / "examples" / "godot" / "orchard3"
ENV = f"godot/{FOLDER}"
OPTIONS: dict[str, object] = {"speedup": 1000, "engine": "godot3-server"}  # as fast as the engine can
ACTION = frame({"type": "action", "action": [{"move": [0.3125, -0.5], "act": 1}] * 2})


def engine() -> str:
    """Return the path of the engine."""
    found = shutil.which("godot3-server")
    if found is None:
        raise PeerMissing("godot3-server is not installed. It is a Debian package. Type: sh scripts/system-packages.sh")
    return found


def orchard_config() -> EnvironmentConfig:
    return EnvironmentConfig(family="godot", env_id=str(FOLDER), options=dict(OPTIONS))


def orchard() -> Env:
    engine()
    return make_env(orchard_config())


class BareLoop:
    """Peer of a socket that sends bytes made in advance and reads each answer without looking at it."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(30)

    def ask(self, message: bytes) -> bytes:
        self._socket.sendall(message)
        data = self._socket.recv(65536)
        while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "little"):
            data += self._socket.recv(65536)
        return data

    def step(self, rows: Sequence[NDArray[np.float32]]) -> tuple[list[NDArray[np.float32]], list[float], list[bool]]:
        """Step the game as any client must: write the actions as JSON, parse the answer into arrays; check nothing."""
        sent = [{"move": row[:2].tolist(), "act": int(row[2:].argmax())} for row in rows]
        answer = msgspec.json.decode(self.ask(frame({"type": "action", "action": sent}))[HEADER.size :])
        return [np.array(each["obs"], np.float32) for each in answer["obs"]], answer["reward"], answer["done"]

    def begin(self, seed: int) -> None:
        self.ask(frame({"type": "reset", "seed": seed}))


@contextmanager
def bare_loop(command: Sequence[str]) -> Iterator[BareLoop]:
    """Start a program with the number of a port as its last argument, and shake hands with it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = server.getsockname()[1]
        words = [word.replace("PORT", str(port)) for word in command]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            connection, _ = server.accept()
            with connection:
                loop = BareLoop(connection)
                connection.sendall(frame({"type": "handshake", "major_version": "0", "minor_version": "7"}))
                loop.ask(frame({"type": "env_info"}))
                yield loop
        finally:
            process.kill()
            process.wait()
