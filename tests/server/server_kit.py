"""What the server's tests share: a small run, real servers in processes of their own, and clients for them."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

import psutil
from fastapi.testclient import TestClient

from mosaic.runs.trainer import Trainer
from mosaic.server.app import create_app
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import ensure_token
from mosaic.server.client.client import Client
from mosaic.server.context import ServerSettings
from mosaic.server.queue.policy import QueueLimits

LIMITS = QueueLimits(runs=8, cores=64, memory_mb=100_000, gpus=1)
NOTHING_STARTS = QueueLimits(runs=0, cores=1, memory_mb=1024, gpus=1)
PATIENCE_S = 60.0

SERVE = """
import json, sys
from pathlib import Path
from mosaic.server.context import ServerSettings
from mosaic.server.queue.policy import QueueLimits
from mosaic.server.serve import ListenAddress, serve
options = json.loads(sys.argv[1])
settings = ServerSettings(limits=QueueLimits(**options["limits"]))
serve(ListenAddress(port=options["port"]), Path(options["home"]), settings)
"""


def toy(iterations: int = 20, iteration_s: float = 0.0, **parts: Any) -> dict[str, Any]:
    """A run of the toy worker: an event per iteration."""
    training = {"worker": "toy", "total_timesteps": 10 * iterations}
    params = {"steps_per_iteration": 10, "iteration_s": iteration_s}
    return {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {**training, "params": params},
        "resources": {"num_env_runners": 1},
        **parts,
    }


@contextmanager
def app_client(home: Path, **settings: Any) -> Iterator[TestClient]:
    """The app without a socket. Nothing starts by itself unless the settings say so."""
    values: dict[str, Any] = {"limits": LIMITS, "start_queued": False, "hosts": allowed_hosts(), **settings}
    app = create_app(home, ServerSettings(**values))
    headers = {"Authorization": f"Bearer {ensure_token(home)}"}
    with TestClient(app, base_url="http://127.0.0.1:8642", headers=headers, raise_server_exceptions=False) as client:
        yield client


class ServerProcess:
    """`serve()` in a process of its own, on a free port unless one is given."""

    def __init__(self, home: Path, port: int = 0, limits: QueueLimits = LIMITS) -> None:
        asked = {"home": str(home), "port": port, "limits": _fields(limits)}
        self.home = home
        self.process = subprocess.Popen(
            [sys.executable, "-c", SERVE, json.dumps(asked)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=home.parent,
        )
        assert self.process.stdout is not None
        self.said: list[str] = []
        for line in self.process.stdout:
            self.said.append(line)
            if line.startswith("Its token"):
                break
        if "listens on" not in "".join(self.said[:1]):
            raise AssertionError(f"the server did not start: {''.join(self.said)}{self._gone()}")
        self.url = self.said[0].split()[-1]
        self.port = int(self.url.rpartition(":")[2])

    def client(self) -> Client:
        return Client(self.url, home=self.home)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self._gone()

    def interrupt(self) -> str:
        """Ctrl-C; answers what it said since it began to listen."""
        self.process.send_signal(signal.SIGINT)
        return self._gone()

    def _gone(self) -> str:
        assert self.process.stdout is not None
        rest = self.process.stdout.read()
        self.process.stdout.close()
        self.process.wait(PATIENCE_S)
        return rest

    def __enter__(self) -> ServerProcess:
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdout is not None
        if not self.process.stdout.closed:
            self.kill()


def _fields(limits: QueueLimits) -> dict[str, int]:
    return {name: getattr(limits, name) for name in ("runs", "cores", "memory_mb", "gpus")}


def end_runs(home: Path) -> None:
    """Leaves no process of a test's runs behind."""
    for run in Trainer(home).runs():
        run.stop(patience_s=1.0)
    eventually(lambda: not processes_of(home), "the end of every process")


def processes_of(home: Path) -> list[list[str]]:
    """Command lines of supervisors and workers of this store."""
    lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
    hosts = {"mosaic.runs.supervisor", "mosaic.workers.host"}
    return [line for line in lines if hosts & set(line) and any(part.startswith(f"{home}/") for part in line)]


def eventually(true: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    """Looks again and again at what another process does."""
    deadline_s, never = monotonic() + patience_s, threading.Event()
    while not true():
        assert monotonic() < deadline_s, f"{what} did not happen within {patience_s:g} s"
        never.wait(0.02)
