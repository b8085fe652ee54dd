"""Servers that come and go: how one starts and ends, several on one store, and the queue they share."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.trainer import Trainer
from mosaic.server import context as machine
from mosaic.server.auth.token import ensure_token, token_file
from mosaic.server.client.client import Client
from mosaic.server.queue.dispatcher import Dispatcher, NoRoomError
from mosaic.server.queue.policy import QueueLimits
from mosaic.server.serve import ListenAddress, serve
from mosaic.store.state import LIVE, State
from tests.server.server_kit import LIMITS, NOTHING_STARTS, ServerProcess, eventually, toy

ONE_AT_A_TIME = QueueLimits(runs=1, cores=64, memory_mb=100_000, gpus=0)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "box.example"])
def test_a_public_address_needs_a_word(tmp_path: Path, host: str) -> None:
    with pytest.raises(InputError, match=f"'{host}' can be reached from other machines.*--allow-public"):
        serve(ListenAddress(host), tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {port}.*mosaic serve --port {port + 1}"):
            serve(ListenAddress(port=port), tmp_path)


def test_ctrl_c_ends_the_server_and_no_run(home: Path) -> None:
    with ServerProcess(home) as server, server.client() as client:
        run = client.submit(toy(iterations=100_000, iteration_s=0.005))
        stream = run.events(reconnect_s=0)
        next(stream)
        said = server.interrupt()
        assert server.process.returncode == 0
        assert said == "The server has ended. Active runs continue.\n"
        assert Trainer(home).run(run.id).state is State.RUNNING
        stream.close()
    token = ensure_token(home)
    assert all(token not in line for line in server.said)
    assert str(token_file(home)) in server.said[1]


def test_secrets_stand_in_no_argument_and_no_log(home: Path) -> None:
    with ServerProcess(home) as server:
        token = ensure_token(home)
        with server.client() as client:
            client.submit(toy(iterations=5)).wait()
            with pytest.raises(MosaicError):
                client.send("GET", f"/nowhere?token={token}")
        with pytest.raises(InputError, match="The token is missing or wrong"), Client(server.url, "wrong" * 9) as other:
            other.health()
        lines = [process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])]
        assert not any(token in part for line in lines for part in line)
        said = "".join(server.said) + server.interrupt()
    assert token not in said
    holding = [path for path in home.rglob("*") if path.is_file() and token in path.read_text(errors="replace")]
    assert holding == [token_file(home)]
    assert stat.S_IMODE(token_file(home).stat().st_mode) == 0o600


@pytest.mark.slow
def test_a_new_server_finds_the_queue_again(home: Path) -> None:
    with ServerProcess(home, limits=NOTHING_STARTS) as server, server.client() as client:
        runs = [client.submit(toy(iterations=3)).id for _ in range(3)]
        assert client.health().queued == 3
        server.kill()
    with ServerProcess(home) as server, server.client() as client:
        assert [client.run(run_id).wait(60) for run_id in runs] == [State.FINISHED] * 3


@pytest.mark.slow
@pytest.mark.chosen
def test_two_servers_on_one_store_start_each_run_once(home: Path) -> None:
    with ServerProcess(home) as one, ServerProcess(home) as two, one.client() as first, two.client() as second:
        runs = [client.submit(toy(iterations=20)) for client in (first, second) * 2]
        for run, reader in zip(runs, (second, first) * 2, strict=True):
            assert reader.run(run.id).wait(60) is State.FINISHED
        for run in runs:
            folder = Trainer(home).run(run.id)
            assert len(folder.record().attempts) == 1
            steps = [event["env_steps"] for event in folder.events() if event["kind"] == "iteration"]
            assert steps == [10 * (number + 1) for number in range(20)]
        key = "the same for both"
        assert first.submit(toy(), key=key).id == second.submit(toy(), key=key).id


@pytest.mark.slow
def test_limits_are_kept_by_two_servers_together(home: Path) -> None:
    trainer = Trainer(home)
    dispatchers = [Dispatcher(trainer, ONE_AT_A_TIME) for _ in range(2)]
    runs = [trainer.submit(toy(iterations=100_000, iteration_s=0.01), start=False) for _ in range(3)]
    for dispatcher in dispatchers:
        dispatcher.open()
    try:
        for _ in runs:
            eventually(lambda: any(run.state is State.RUNNING for run in runs), "a start")
            alive = [run for run in runs if run.state in LIVE]
            assert len(alive) == 1
            alive[0].stop()
    finally:
        for dispatcher in dispatchers:
            dispatcher.close()
    assert sorted(len(run.record().attempts) for run in runs) == [1, 1, 1]


@pytest.mark.slow
def test_twenty_runs_on_two_cores(home: Path) -> None:
    """All of them finish, and never do more than two live."""
    trainer = Trainer(home)
    with (
        ServerProcess(home, limits=QueueLimits(runs=20, cores=2, memory_mb=100_000, gpus=0)) as server,
        server.client() as client,
    ):
        runs = [client.submit(toy(iterations=20, iteration_s=0.01), group=f"group {n % 3}") for n in range(20)]
        most = 0

        def all_ended() -> bool:
            nonlocal most
            states = [run.state for run in trainer.summaries()]
            most = max(most, sum(state in LIVE for state in states))
            return states.count(State.FINISHED) == len(runs)

        eventually(all_ended, "the end of all runs", 240)
    assert most == 2
    assert {len(trainer.run(run.id).record().attempts) for run in runs} == {1}


def test_a_run_that_others_started_is_left_alone(home: Path) -> None:
    trainer = Trainer(home)
    run = trainer.submit(toy(iterations=100_000, iteration_s=0.01))
    dispatcher = Dispatcher(trainer, LIMITS)
    assert dispatcher.dispatch() == []
    other = trainer.submit(toy(), start=False)
    with pytest.raises(NoRoomError, match="does not fit beside the 1 that run now"):
        Dispatcher(trainer, ONE_AT_A_TIME).check_room(other.folder, other.config)
    run.stop()


def spoil(home: Path, run_id: str) -> None:
    """Options are checked when a run is submitted; these make it fail when it starts."""
    config = Trainer(home).run(run_id).folder.config
    config.write_text(config.read_text().replace('"steps_per_iteration": 10', '"steps_per_iteration": 0'))


@pytest.mark.slow
def test_a_failed_run_is_tried_again_only_if_asked(home: Path) -> None:
    trainer = Trainer(home)
    for retries, attempts in ((0, 1), (2, 3)):
        run = trainer.submit(toy(), start=False)
        spoil(home, run.id)
        dispatcher = Dispatcher(trainer, LIMITS, retries)
        for _ in range(attempts):
            assert dispatcher.dispatch() == [run.id]
            assert run.wait(60) is State.FAILED
        assert dispatcher.dispatch() == []
        assert len(run.record().attempts) == attempts
    assert Dispatcher(trainer, LIMITS, 9).dispatch() == []  # what failed before this server's time stays as it is


def test_a_stopped_run_is_not_tried_again(home: Path) -> None:
    trainer = Trainer(home)
    run = trainer.submit(toy(iterations=100_000, iteration_s=0.01), start=False)
    dispatcher = Dispatcher(trainer, LIMITS, retries=3)
    assert dispatcher.dispatch() == [run.id]
    run.stop()
    assert dispatcher.dispatch() == []


def test_a_damaged_run_is_noted_once(home: Path, caplog: pytest.LogCaptureFixture) -> None:
    trainer = Trainer(home)
    trainer.submit(toy(), start=False).folder.config.write_text("{")
    fine = trainer.submit(toy(iterations=3), start=False)
    dispatcher = Dispatcher(trainer, LIMITS)
    assert dispatcher.dispatch() == [fine.id]
    assert dispatcher.dispatch() == []
    assert len([record for record in caplog.records if "cannot be shown" in record.message]) == 1
    assert trainer.store.index.notes == []


def test_a_run_that_cannot_start_is_reported_and_blocks_nobody(home: Path) -> None:
    trainer = Trainer(home)
    stuck, fine = (trainer.submit(toy(iterations=3), start=False) for _ in range(2))
    in_the_way = stuck.folder.path / "supervisor.log"
    in_the_way.mkdir()
    dispatcher = Dispatcher(trainer, LIMITS)
    assert dispatcher.dispatch() == [fine.id]
    assert list(dispatcher.stuck()) == [stuck.id]
    assert dispatcher.dispatch() == []
    assert fine.wait(60) is State.FINISHED


@pytest.mark.slow
def test_resume_over_http_needs_room(home: Path) -> None:
    with ServerProcess(home, limits=ONE_AT_A_TIME) as server, server.client() as client:
        first = client.submit(toy(iterations=100_000, iteration_s=0.01))
        next(first.events())
        first.stop()
        second = client.submit(toy(iterations=100_000, iteration_s=0.01))
        next(second.events())
        with pytest.raises(InputError, match="does not fit beside the 1 that run now"):
            first.resume()
        second.stop()
        assert first.resume().state in LIVE
        assert len(first.show().attempts) == 2


def test_gpus_are_those_of_the_drivers_tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(
        "#!/bin/sh\necho 'GPU 0: NVIDIA X (UUID: a)'\necho '  MIG 1g (UUID: b)'\necho 'GPU 1: NVIDIA X (UUID: c)'\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert machine.count_gpus() == 2
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert machine.count_gpus() == 1
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert machine.count_gpus() == 0
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    tool.write_text("#!/bin/sh\nexit 9\n")
    assert machine.count_gpus() == 0
    tool.unlink()
    assert machine.count_gpus() == 0
    limits = machine.machine_limits(cores=3)
    assert (limits.runs, limits.cores, limits.gpus) == (3, 3, 0)
    assert limits.memory_mb == psutil.virtual_memory().total // 2**20


def test_importing_the_client_brings_no_server() -> None:
    heavy = "{'fastapi', 'uvicorn', 'torch', 'gymnasium'}"
    code = f"import sys, mosaic.server.client.client; print(*{heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_signals_reach_only_the_server(home: Path) -> None:
    """Ctrl-C in a terminal goes to its whole process group; runs have left it."""
    with ServerProcess(home) as server, server.client() as client:
        run = client.submit(toy(iterations=100_000, iteration_s=0.005))
        next(event for event in run.events() if event["kind"] == "iteration")
        record = Trainer(home).run(run.id).record()
        worker, supervisor = record.attempts[-1].worker, record.attempts[-1].supervisor
        assert worker is not None
        assert supervisor is not None
        groups = {os.getpgid(each.pid) for each in (worker, supervisor)}
        assert os.getpgid(server.process.pid) not in groups
        server.process.send_signal(signal.SIGTERM)
        server.process.wait(60)
        assert Trainer(home).run(run.id).state in {State.STARTING, State.RUNNING}
