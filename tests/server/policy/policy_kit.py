"""Policy servers in a thread of the test's process, behind real sockets, and policies for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from fastapi import FastAPI

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.files import write_new
from mosaic.core.turn import Turn
from mosaic.server.app import create_app
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import token_file
from mosaic.server.client.policy_client import PolicyClient
from mosaic.server.context import ServerSettings
from mosaic.server.policy_server import create_policy_app
from mosaic.server.policy_source import OnePolicy
from mosaic.server.serve import ListenAddress, address_of, listen, server_config
from tests.server.server_kit import NOTHING_STARTS

TOKEN = "a-token-for-the-tests-of-the-policy-server"
CARTPOLE = "gym/CartPole-v1"
COUNTING = f"python:{__name__}:Counting"


FIRST = f"python:{__name__}:first_legal"


def first_legal(observation: Any, mask: Any) -> int:
    return int(np.argmax(mask))


class Counting:
    """Policy with memory: plays whether the number of its decisions in the episode is odd."""

    def __init__(self, spec: Any, agent: str, seed: int) -> None:
        self.count = 0

    def begin(self, agents: tuple[str, ...], seed: int) -> None:
        self.count = 0

    def act(self, turn: Turn) -> dict[str, int]:
        self.count += 1
        return dict.fromkeys(turn.observations, self.count % 2)

    def forget(self, agent: str) -> None:
        self.count = 0

    def close(self) -> None:
        pass


class Serving:
    """A running server."""

    def __init__(self, url: str, server: uvicorn.Server, thread: threading.Thread) -> None:
        self.url, self._server, self._thread = url, server, thread
        self.port = int(url.rpartition(":")[2])

    def client(self, **options: Any) -> PolicyClient:
        return PolicyClient(self.url, token=TOKEN, **options)

    def end(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)
        assert not self._thread.is_alive()


@contextmanager
def serving(
    policy: str = COUNTING, env: str = CARTPOLE, *, port: int = 0, options: Any = None, **settings: Any
) -> Iterator[Serving]:
    """`mosaic policy-server`."""
    source = OnePolicy(policy, EnvironmentConfig(env_id=env, options=options or {}))
    with _running(create_policy_app(source, TOKEN, allowed_hosts(), **settings), port) as made:
        yield made


@contextmanager
def serving_any(home: Path, **settings: Any) -> Iterator[Serving]:
    """`mosaic serve`, whose routes /policy/* play what each episode names."""
    home.mkdir(exist_ok=True)
    write_new(token_file(home), TOKEN.encode(), 0o600)
    app = create_app(home, ServerSettings(limits=NOTHING_STARTS, start_queued=False, **settings))
    with _running(app) as made:
        yield made


@contextmanager
def _running(app: FastAPI, port: int = 0) -> Iterator[Serving]:
    with listen(ListenAddress(port=port)) as listener:
        server = uvicorn.Server(server_config(app))
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        made = Serving(address_of(listener), server, thread)
        try:
            yield made
        finally:
            made.end()


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)
