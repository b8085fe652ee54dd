"""Server in the background, which outlives the terminal or ssh connection that started it."""

from __future__ import annotations

import http.client
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from mosaic.core.child_process import module_command
from mosaic.core.errors import InputError, MosaicError
from mosaic.server.auth.token import ensure_token
from mosaic.server.serve import ListenAddress
from mosaic.store.store import Store

LOG = "server.log"  # in the store's folder
_START_WITHIN_S = 60.0
_LOOK_EVERY_S = 0.05
_TIMEOUT_S = 10.0
_OURS = (200, 503)  # of GET /health with the store's token: ok, degraded


class BackgroundServer(NamedTuple):
    """Server of this store that listens now."""

    address: str
    token: str
    pid: int | None  # if this call started it


def ensure_server(address: ListenAddress, options: Sequence[str] = (), home: Path | None = None) -> BackgroundServer:
    """Return the server of this store that listens at the address; start `mosaic serve` there if none does.

    `options` are further options of that command; a server that already runs has its own.
    """
    address.check()
    if not address.port:
        raise InputError("A server in the background needs a port that you know: --port 8642.")
    store = Store(home)
    token = ensure_token(store.home)
    found = BackgroundServer(f"http://{address.host}:{address.port}", token, None)
    if _listens(address, token):
        if options:
            raise InputError(
                f"A server of this store already listens on {found.address}; it keeps the options that it was started "
                f"with. End it first, or leave out {' '.join(options)}."
            )
        return found
    return found._replace(pid=_start(address, options, store.home, token))


def _start(address: ListenAddress, options: Sequence[str], home: Path, token: str) -> int | None:
    where = ["--host", address.host, "--port", str(address.port)]
    log = home / LOG
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        process = subprocess.Popen(
            module_command("mosaic", "serve", *where, *options),
            env={**os.environ, "MOSAIC_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,  # it prints a link with the token, which does not belong in a log
            stderr=descriptor,
            cwd=home,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    deadline_s = monotonic() + _START_WITHIN_S
    while not _listens(address, token):
        if monotonic() > deadline_s:
            process.kill()
            raise MosaicError(f"The server did not listen within {_START_WITHIN_S:g} s (see {log}).")
        try:
            code = process.wait(_LOOK_EVERY_S)
        except subprocess.TimeoutExpired:
            continue
        if _listens(address, token):  # another one was started at the same time
            return None
        said = log.read_text(errors="replace").strip() or f"it ended with exit code {code}"
        raise (InputError if code == 2 else MosaicError)(said.removeprefix("error: "))
    process.returncode = 0  # it is meant to outlive this process: no warning about a child that still runs
    return process.pid


def _listens(address: ListenAddress, token: str) -> bool:
    """Return whether a server of this store responds at the address; raise where another program does."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health", headers={"Authorization": f"Bearer {token}"})
        status = connection.getresponse().status
    except ConnectionRefusedError:
        return False
    except (OSError, http.client.HTTPException) as error:
        raise _taken(address, str(error)) from error
    finally:
        connection.close()
    if status not in _OURS:
        raise _taken(address, f"HTTP status {status}")
    return True


def _taken(address: ListenAddress, why: str) -> InputError:
    return InputError(
        f"What listens on {address.host} port {address.port} is not a server of this store ({why}). "
        f"Type another port: mosaic serve --detach --port {address.port + 1}"
    )
