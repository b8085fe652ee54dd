"""Tunnel to a server on another machine through the system's ssh, which starts one there where none runs."""

from __future__ import annotations

import json
import os
import re
import select
import shlex
import shutil
import socket
import subprocess
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import IO
from urllib.parse import urlsplit

from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.core.system import install_line
from mosaic.server.client.address import DEFAULT_PORT, known_token, sendable, token_variable

COMMAND_VARIABLE = "MOSAIC_SSH_COMMAND"  # the command `mosaic` on the other machine, where it is not on the PATH
PATIENCE_S = 60.0  # a password may have to be typed
_HOST = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*")
_LOOK_S = 0.02
_NOT_FOUND, _SSH_FAILED = 127, 255  # exit codes of the shell and of ssh


class TunnelError(MosaicError):
    """Error for an ssh connection that could not be opened, or a server that could not be started through it."""


@dataclass(frozen=True, slots=True)
class SshAddress:
    """`ssh://[USER@]HOST[:SSH_PORT][/SERVER_PORT]`."""

    host: str
    ssh_port: int | None = None
    server_port: int = DEFAULT_PORT

    @classmethod
    def parse(cls, url: str) -> SshAddress:
        parts = urlsplit(url)
        host = parts.netloc.rpartition(":")[0] if ":" in parts.netloc else parts.netloc
        text = parts.path.strip("/")
        try:
            port = parts.port
            server_port = int(text) if text else DEFAULT_PORT
        except ValueError as error:
            raise _not_an_address(url) from error
        # A host that begins with '-' would be an option of ssh, and some of these run programs.
        if parts.scheme != "ssh" or not _HOST.fullmatch(host) or not 0 < server_port < 65536 or parts.query:
            raise _not_an_address(url)
        return cls(host, port, server_port)


def _not_an_address(url: str) -> InputError:
    return InputError(
        f"'{url}' is not ssh://[USER@]HOST[:SSH_PORT][/SERVER_PORT], for example ssh://gpu-box or ssh://me@gpu-box/8642."
    )


def open_tunnel(url: str, token: str | None = None) -> tuple[Tunnel, str]:
    """Return a tunnel to the server behind an ssh address, and the server's token.

    With a token from here, a server that runs there is used as it is. Without one, or where none responds, one ssh
    connection makes sure that a server runs, asks for its token and is the tunnel: a password is typed once.
    """
    address, known = SshAddress.parse(url), known_token(url, token)
    if known is not None:
        tunnel = Tunnel(address)
        if tunnel.responds():
            return tunnel, known
        tunnel.close()
    tunnel = Tunnel(address, start=True)
    return tunnel, tunnel.token


class Tunnel:
    """Tunnel whose near end is a socket file in a private folder: no other user can replace or use it."""

    token = ""  # of a server that was asked for it

    def __init__(self, address: SshAddress, *, start: bool = False, patience_s: float = PATIENCE_S) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise MissingExtraError(f"There is no program 'ssh'. Type: {install_line('openssh-client', 'openssh')}")
        folder = Path(tempfile.mkdtemp(prefix="mosaic-ssh-"))
        self.socket = folder / "server"
        self._address, self._said = address, (folder / "said").open("w+b")
        way = f"{self.socket}:127.0.0.1:{address.server_port}"
        port = [] if address.ssh_port is None else ["-p", str(address.ssh_port)]
        options = ["-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177", "-o", "ServerAliveInterval=15"]
        pipe = subprocess.PIPE if start else subprocess.DEVNULL
        command = [_start_command(address.server_port)] if start else []
        self._process = subprocess.Popen(
            [program, *([] if start else ["-N"]), "-L", way, *options, *port, "--", address.host, *command],
            stdin=pipe,  # its end ends the command there
            stdout=pipe,
            stderr=self._said,
        )
        self.close = weakref.finalize(self, _end, self._process, self._said, folder)
        deadline_s = monotonic() + patience_s
        try:
            if start:
                self.token = self._ask_token(deadline_s)
            self._wait(deadline_s)
        except BaseException:
            self.close()
            raise

    def responds(self) -> bool:
        """Return whether a server is behind the tunnel: without one, ssh closes a connection at once."""
        with socket.socket(socket.AF_UNIX) as near:
            near.settimeout(PATIENCE_S)
            try:
                near.connect(str(self.socket))
                near.sendall(b"GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n")
                return bool(near.recv(1))
            except ConnectionError:
                return False

    def _wait(self, deadline_s: float) -> None:
        """Wait for the socket, which ssh creates without notification once the tunnel is open."""
        never = threading.Event()
        while not self.socket.exists():
            if self._process.poll() is not None:
                raise self._error(f"failed: {self._complaint()}")
            if monotonic() > deadline_s:
                raise self._error(f"did not open a tunnel in time: {self._complaint()}")
            never.wait(_LOOK_S)

    def _ask_token(self, deadline_s: float) -> str:
        """Return the token that `mosaic serve --detach --json` prints, below what the other machine's shell says."""
        assert self._process.stdout is not None
        descriptor, said = self._process.stdout.fileno(), b""
        while not (token := _token_in(said)):
            if not select.select([descriptor], [], [], max(0.0, deadline_s - monotonic()))[0]:
                raise self._error(f"did not start a server in time: {self._complaint()}")
            part = os.read(descriptor, 1 << 16)
            if not part:
                raise self._not_started(self._process.wait())
            said += part
        return sendable(token)

    def _not_started(self, code: int) -> TunnelError:
        host = self._address.host
        if code == _SSH_FAILED:
            return self._error(f"failed: {self._complaint()}")
        if code == _NOT_FOUND:
            return TunnelError(
                f"There is no command '{_command()}' on {host}. Type there: pipx install 'mosaic-rl[web]'. If it is in "
                f"an environment that is not on the PATH, type here: export {COMMAND_VARIABLE}=/PATH/TO/bin/mosaic"
            )
        why = self._complaint().rstrip(".")
        return TunnelError(
            f"No server could be started on {host}: {why}. To use one that already runs there, set "
            f"{token_variable(f'ssh://{host}')} to what the file 'token' in its $MOSAIC_HOME holds."
        )

    def _error(self, what: str) -> TunnelError:
        return TunnelError(f"ssh to {self._address.host} {what}")

    def _complaint(self) -> str:
        self._said.seek(0)
        last = self._said.read().decode(errors="replace").strip().rpartition("\n")[2]
        return str(_document(last).get("error") or last or "it said nothing")


def _command() -> str:
    return os.environ.get(COMMAND_VARIABLE, "mosaic")


def _start_command(port: int) -> str:
    """Return the shell command for the other machine; it ends with its input, so that the tunnel lasts until then.

    Commands of pip, pipx and uv are in ~/.local/bin, which shells without a terminal often lack.
    """
    start = f"{shlex.quote(_command())} serve --detach --json --port {port}"
    script = f'PATH="$PATH:$HOME/.local/bin"; {start} && exec cat >/dev/null'
    return f"sh -c {shlex.quote(script)}"


def _token_in(said: bytes) -> str:
    """Return the token of the first complete line that is the document of `mosaic serve --detach --json`."""
    documents = map(_document, said.decode(errors="replace").split("\n")[:-1])
    return next((str(document["token"]) for document in documents if "token" in document), "")


def _document(line: str) -> dict[str, object]:
    """Return the JSON object in a line, or an empty one."""
    try:
        document = json.loads(line)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _end(process: subprocess.Popen[bytes], said: IO[bytes], folder: Path) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
    said.close()
    shutil.rmtree(folder)
