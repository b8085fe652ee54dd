"""Address and token of a server, and the ssh tunnel to one on another machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import BinaryIO
from urllib.parse import urlsplit

from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.server.auth.hosts import is_loopback
from mosaic.server.auth.token import read_token
from mosaic.store.store import home as default_home

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 8642
TOKEN_VARIABLE = "MOSAIC_TOKEN"
PATIENCE_S = 60.0  # a password may have to be typed
_HOST = re.compile(r"([A-Za-z0-9_][A-Za-z0-9._-]*@)?[A-Za-z0-9_][A-Za-z0-9._-]*")
_LOOK_S = 0.02


def find_token(url: str, token: str | None = None, home: Path | None = None) -> str:
    """Return the given token, else $MOSAIC_TOKEN, else that of this user's store, which is only for local servers."""
    found = token or os.environ.get(TOKEN_VARIABLE)
    if found:
        return _sendable(found)
    if is_local(url):
        return read_token(default_home() if home is None else home)
    raise InputError(
        f"'{url}' wants a token: set {TOKEN_VARIABLE} to what the file 'token' in the server's $MOSAIC_HOME holds."
    )


def is_local(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "http" and is_loopback(parts.hostname or "")


def check_url(url: str) -> str:
    """Return `http://HOST:PORT`, without a trailing slash."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        valid = False
    if not valid or parts.username is not None or parts.query or parts.fragment:
        raise InputError(f"'{url}' is not the address of a server. Type http://HOST:PORT or ssh://HOST.")
    return url.rstrip("/")


def _sendable(token: str) -> str:
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError("The token has invalid characters; was it copied completely?")
    return token


class TunnelError(MosaicError):
    """Error for an ssh connection that could not be opened."""


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


class Tunnel:
    """Tunnel whose near end is a socket file in a private folder: no other user can replace or use it."""

    def __init__(self, address: SshAddress, patience_s: float = PATIENCE_S) -> None:
        program = shutil.which("ssh")
        if program is None:
            raise MissingExtraError("There is no program 'ssh'. Type: apt install openssh-client")
        folder = Path(tempfile.mkdtemp(prefix="mosaic-ssh-"))
        self.socket = folder / "server"
        self._said = (folder / "said").open("w+b")
        way = f"{self.socket}:127.0.0.1:{address.server_port}"
        port = [] if address.ssh_port is None else ["-p", str(address.ssh_port)]
        options = ["-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindMask=0177", "-o", "ServerAliveInterval=15"]
        self._process = subprocess.Popen(
            [program, "-N", "-L", way, *options, *port, "--", address.host],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
        )
        self.close = weakref.finalize(self, _end, self._process, self._said, folder)
        try:
            self._wait(address, monotonic() + patience_s)
        except BaseException:
            self.close()
            raise

    def _wait(self, address: SshAddress, deadline_s: float) -> None:
        """Wait for the socket, which ssh creates without notification once the tunnel is open."""
        never = threading.Event()
        while not self.socket.exists():
            if self._process.poll() is not None:
                raise TunnelError(f"ssh to {address.host} failed: {self._complaint()}")
            if monotonic() > deadline_s:
                raise TunnelError(f"ssh to {address.host} did not open a tunnel in time: {self._complaint()}")
            never.wait(_LOOK_S)

    def _complaint(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace").strip().rpartition("\n")[2] or "it said nothing"


def _end(process: subprocess.Popen[bytes], said: BinaryIO, folder: Path) -> None:
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    said.close()
    shutil.rmtree(folder)
