"""Servers on other machines: the tunnel, and `mosaic serve` started through it."""

from __future__ import annotations

import json
import os
import shlex
import signal
import stat
import sys
from pathlib import Path

import psutil
import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.server.auth.token import ensure_token
from mosaic.server.background import LOG, ensure_server
from mosaic.server.client.client import Client
from mosaic.server.client.ssh import COMMAND_VARIABLE, SshAddress, Tunnel
from mosaic.server.serve import ListenAddress
from mosaic.store.state import State
from tests.ports import reserved_port
from tests.server.server_kit import ServerProcess, eventually, toy

FAKE_SSH = """#!{python}
import os, signal, socket, subprocess, sys, threading
arguments = sys.argv[1:]
with open({log!r}, "a") as log:
    print(os.getpid(), *arguments, file=log)
if "nowhere" in arguments:
    print("ssh: Could not resolve hostname nowhere", file=sys.stderr)
    sys.exit(255)
near, _, far = arguments[arguments.index("-L") + 1].partition(":")
host, _, port = far.rpartition(":")
def carry(source, target):
    while data := source.recv(65536):
        target.sendall(data)
    target.shutdown(socket.SHUT_WR)
listener = socket.socket(socket.AF_UNIX)
listener.bind(near)
listener.listen()
def forward():
    while True:
        one, _ = listener.accept()
        try:
            two = socket.create_connection((host, int(port)))
        except ConnectionRefusedError:
            one.close()
            continue
        for pair in ((one, two), (two, one)):
            threading.Thread(target=carry, args=pair, daemon=True).start()
command = arguments[arguments.index("--") + 2 :]
if not command:
    forward()
threading.Thread(target=forward, daemon=True).start()
sys.exit(subprocess.run(["sh", "-c", " ".join(command)]).returncode)
"""


@pytest.fixture
def ssh_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program `ssh` that opens the way on this machine and writes down how it was called."""
    folder = tmp_path / "bin"
    folder.mkdir()
    log = tmp_path / "ssh.log"
    program = folder / "ssh"
    program.write_text(FAKE_SSH.format(python=sys.executable, log=str(log)))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith("MOSAIC_TOKEN")]:
        monkeypatch.delenv(name)
    return log


def calls(log: Path) -> list[str]:
    """Return how ssh was called, a line each."""
    return log.read_text().splitlines()


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command `mosaic` of the other machine, for each test to write."""
    program = tmp_path / "there" / "mosaic of the other machine"
    program.parent.mkdir()
    program.touch(0o755)
    monkeypatch.setenv(COMMAND_VARIABLE, str(program))
    return program


def test_through_ssh(home: Path, ssh_log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ServerProcess(home) as server:
        monkeypatch.setenv("MOSAIC_TOKEN", ensure_token(home))
        with Client(f"ssh://me@box:2222/{server.port}") as client:
            run = client.submit(toy(iterations=50))
            assert [event["seq"] for event in run.events()][:50] == list(range(1, 51))
            assert run.wait() is State.FINISHED
        pid, *arguments = ssh_log.read_text().split()
        assert arguments[:2] == ["-N", "-L"]
        assert arguments[2].endswith(f":127.0.0.1:{server.port}")
        assert arguments[-4:] == ["-p", "2222", "--", "me@box"]
        assert ensure_token(home) not in ssh_log.read_text()
        assert not psutil.pid_exists(int(pid))
        assert not Path(arguments[2].partition(":")[0]).parent.exists()


def test_a_forgotten_tunnel_ends(home: Path, ssh_log: Path) -> None:
    with ServerProcess(home) as server:
        Tunnel(SshAddress("box", server_port=server.port))
        pid = int(ssh_log.read_text().split()[0])
        eventually(lambda: not psutil.pid_exists(pid), "the end of ssh")


def test_what_ssh_complains_about_is_passed_on(ssh_log: Path) -> None:
    with pytest.raises(MosaicError, match="ssh to nowhere failed: ssh: Could not resolve hostname nowhere"):
        Client("ssh://nowhere", "token")


@pytest.mark.parametrize(
    "url", ["ssh://", "ssh://-oProxyCommand=x", "ssh://a@-b", "ssh://a b", "ssh://box:x", "ssh://box/x", "ssh://box/0"]
)
def test_what_is_no_ssh_address(ssh_log: Path, url: str) -> None:
    with pytest.raises(InputError, match=r"is not ssh://\[USER@\]HOST"):
        Client(url, "token")
    assert not ssh_log.exists()


def test_without_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="There is no program 'ssh'"):
        Client("ssh://box", "token")


def test_without_a_token_the_other_machine_is_asked(home: Path, ssh_log: Path, there: Path) -> None:
    token = ensure_token(home)
    document = json.dumps({"address": "http://127.0.0.1:1", "token": token, "pid": None})
    there.write_text(f"#!/bin/sh\necho Welcome; echo '{{not JSON'; echo {shlex.quote(document)}\n")
    with ServerProcess(home) as server:
        with Client(f"ssh://box/{server.port}") as client:
            assert client.health().status == "ok"
        (call,) = calls(ssh_log)
        assert call.endswith(f"serve --detach --json --port {server.port} && exec cat >/dev/null'")
        assert token not in call
        assert not psutil.pid_exists(int(call.split()[0]))


def test_without_mosaic_on_the_other_machine(ssh_log: Path, there: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    there.unlink()
    with pytest.raises(
        MosaicError, match=r"There is no command '.*mosaic of the other machine' on box\. Type there: pipx"
    ):
        Client("ssh://box")
    monkeypatch.delenv(COMMAND_VARIABLE)
    monkeypatch.setenv("HOME", str(there.parent))
    monkeypatch.setenv("PATH", f"{ssh_log.parent}/bin:/usr/bin:/bin")
    with pytest.raises(MosaicError, match="There is no command 'mosaic' on box"):
        Client("ssh://box")


def test_a_server_that_cannot_start_there(ssh_log: Path, there: Path) -> None:
    for said in ("The disk is full.", "The disk is full"):
        there.write_text(f"""#!/bin/sh\necho '{{"error": "{said}"}}' >&2; exit 1\n""")
        with pytest.raises(
            MosaicError, match=r"could be started on me@box: The disk is full\. To use .* set MOSAIC_TOKEN_BOX"
        ):
            Client("ssh://me@box")
    assert not psutil.pid_exists(int(calls(ssh_log)[0].split()[0]))


def test_a_machine_that_says_nothing(ssh_log: Path, there: Path) -> None:
    there.write_text("#!/bin/sh\nexec cat\n")
    with pytest.raises(MosaicError, match="ssh to box did not start a server in time: it said nothing"):
        Tunnel(SshAddress("box"), start=True, patience_s=0.1)


def test_where_something_else_listens(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "another") as other:
        with pytest.raises(InputError, match=r"is not a server of this store \(HTTP status 401\).*--port"):
            ensure_server(ListenAddress(port=other.port), home=tmp_path / "home")
        found = ensure_server(ListenAddress(port=other.port), home=tmp_path / "another")
        assert (found.pid, found.address) == (None, f"http://127.0.0.1:{other.port}")
        with pytest.raises(InputError, match=r"already listens on .* leave out --max-runs 3"):
            ensure_server(ListenAddress(port=other.port), ["--max-runs", "3"], home=tmp_path / "another")
    with pytest.raises(InputError, match="needs a port that you know"):
        ensure_server(ListenAddress(port=0), home=tmp_path / "home")
    with reserved_port() as port, pytest.raises(InputError, match="No such option"):
        ensure_server(ListenAddress(port=port), ["--nonsense"], home=tmp_path / "home")


@pytest.mark.slow
def test_a_server_is_started_through_ssh_and_stays(
    tmp_path: Path, ssh_log: Path, there: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = tmp_path / "store there"
    there.write_text(f'#!/bin/sh\nMOSAIC_HOME={shlex.quote(str(store))} exec {sys.executable} -P -m mosaic "$@"\n')
    monkeypatch.setenv("MOSAIC_TOKEN_BOX", "of-a-server-that-has-ended")
    with reserved_port() as port:
        with Client(f"ssh://box/{port}") as client:
            assert client.health().status == "ok"
        probed, _ = calls(ssh_log)  # the token of an ended server is no use: the new one's is asked for
        assert " -N " in probed
        monkeypatch.setenv("MOSAIC_TOKEN_BOX", token := ensure_token(store))
        with Client(f"ssh://box/{port}") as client:
            assert client.runs() == []
        (server,) = (each for each in psutil.process_iter() if {f"{port}", "--host", "serve"} <= set(_words(each)))
        try:
            assert len(calls(ssh_log)) == 3
            assert token not in ssh_log.read_text()
            assert token not in " ".join(_words(server))
            log = store / LOG
            assert token not in log.read_text()
            assert stat.S_IMODE(log.stat().st_mode) == 0o600
            assert not any(psutil.pid_exists(int(call.split()[0])) for call in calls(ssh_log))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []
