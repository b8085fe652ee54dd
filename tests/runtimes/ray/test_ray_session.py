"""Ray comes up with what was asked for, and goes without a trace however its driver ends."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.machine import available_cores
from mosaic.core.system import boot_id
from mosaic.runs.processes import look
from mosaic.runtimes.ray import session as ray_runtime
from mosaic.runtimes.ray.session import clean_up, object_store_bytes, ray_session, short_temp_dir

# what an actor leaves behind is nobody's child, so that neither Ray nor the family tree finds it
DRIVER = """
import json, subprocess, sys
import ray
from mosaic.runtimes.ray.session import ray_session

@ray.remote(num_cpus=0)
class Starter:
    def start(self):
        return int(subprocess.check_output(["sh", "-c", "sleep 1000 > /dev/null 2>&1 & echo $!"]))

with ray_session(1, record=lambda record: print(json.dumps({"record": record}), flush=True)):
    starter = Starter.remote()
    print(json.dumps({"sleeper": ray.get(starter.start.remote())}), flush=True)
    sys.stdin.read()
    if "crash" in sys.argv:
        raise RuntimeError("the learner fell over")
"""

JOINER = """
import sys
import ray
from mosaic.core.errors import InputError
from mosaic.runtimes.ray.session import ray_session

try:
    with ray_session(5, sys.argv[1]):
        pass
except InputError as error:
    print(str(error).partition(" Ask")[0])
records = []
with ray_session(1, sys.argv[1], records.append) as session:
    got = ray.get(ray.remote(lambda number: 2 * number).remote(21))
(record,) = records
assert record["temp_dir"] is None and session.temp_dir is None
print(f"joined {session.address}, recorded {len(record['processes']) or 'no process'}, got {got}")
"""


def test_an_impossible_demand_is_refused_at_once() -> None:
    there = available_cores()
    with (
        pytest.raises(
            InputError,
            match=rf"asks Ray for {there + 1} CPUs and this machine gives it {there}. Ask for at most {there}",
        ),
        ray_session(there + 1),
    ):
        pytest.fail("a session with CPUs that do not exist")
    with pytest.raises(InputError, match="at least 1 CPU, not 0"), ray_session(0):
        pytest.fail("a session without CPUs")


@pytest.mark.parametrize("failures", [1, 2])
def test_a_start_that_takes_too_long_is_tried_once_more_with_advice(monkeypatch, tmp_path, failures) -> None:
    limit = "RAY_gcs_server_port_wait_time_s"

    def init(**options: Any) -> Any:
        assert os.environ[limit] == "90"
        tries.append(options["_temp_dir"])
        if len(tries) <= failures:
            raise Exception("The current node timed out during startup.")
        return SimpleNamespace(address_info={"gcs_address": "127.0.0.1:1"})

    tries: list[str] = []
    warnings: list[str] = []
    records: list[dict[str, Any]] = []
    monkeypatch.setattr(ray_runtime, "_init", init)
    monkeypatch.setattr(ray_runtime.tempfile, "gettempdir", lambda: str(tmp_path))
    again = (
        pytest.raises(MosaicError, match=r"even at a second attempt: The current .* --ray-address auto\.")
        if failures > 1
        else nullcontext()
    )
    with again, ray_session(1, record=records.append, warn=warnings.append) as session:
        assert session.address == "127.0.0.1:1"
    (warning,) = warnings
    assert "timed out during startup. It is tried once more. Perhaps the machine is busy" in warning
    assert len(set(tries)) == 2
    assert not any(Path(directory).parent.exists() for directory in tries)
    assert len(records) == (3 if failures == 1 else 2)


def test_a_node_that_registers_late_is_waited_for(monkeypatch) -> None:
    from ray._private import services

    answers: list[Any] = [RuntimeError("not yet"), RuntimeError("not yet"), {"node": "there"}]

    def ask(gcs_address: str, node_id: str) -> Any:
        answer = answers.pop(0)
        if isinstance(answer, RuntimeError):
            raise answer
        return answer

    monkeypatch.setattr(services, "get_node", ask)
    monkeypatch.setattr(ray_runtime, "_ASK_EVERY_S", 0.0)
    with ray_runtime._patient():
        assert services.get_node("address", "node") == {"node": "there"}
    assert services.get_node is ask
    monkeypatch.setattr(ray_runtime, "_START_TIMEOUT_S", 0)
    answers.append(RuntimeError("never"))
    with ray_runtime._patient(), pytest.raises(RuntimeError, match="never"):
        services.get_node("address", "node")


@pytest.mark.parametrize("address", ["cluster", "ray://cluster:10001", "cluster:port", "cluster:99999"])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with (
        pytest.raises(InputError, match=f"'{address}' is not the address of a Ray cluster. Write HOST:PORT"),
        ray_session(1, address),
    ):
        pytest.fail("a session nowhere")


def test_a_cluster_that_does_not_answer_is_refused_at_once() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: nobody else can answer there
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with (
            pytest.raises(InputError, match=f"No Ray cluster answers at {address} .* leave ray_address out"),
            ray_session(1, address),
        ):
            pytest.fail("a session nowhere")


def test_a_cluster_with_too_few_free_cpus_is_refused() -> None:
    with pytest.raises(InputError, match="asks for 4 CPUs and the Ray cluster at host:6379 has 8, 3 of them free"):
        ray_runtime._check_cluster(4, "host:6379", {"CPU": 8.0}, {"CPU": 3.0})
    with pytest.raises(InputError, match="has 8, 0 of them free"):
        ray_runtime._check_cluster(1, "host:6379", {"CPU": 8.0}, {})
    ray_runtime._check_cluster(3, "host:6379", {"CPU": 8.0}, {"CPU": 3.0})


def test_the_object_store_follows_the_machine() -> None:
    assert object_store_bytes(0) == 80 * 2**20
    assert object_store_bytes(20 * 2**30) == 2 * 2**30
    assert object_store_bytes(2**50) == 8 * 2**30


def test_the_directory_is_short_even_where_temporary_files_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 10)
    deep.mkdir()
    made = short_temp_dir(deep)
    try:
        longest = f"{made}/r/session_2026-11-15_13-33-26_161794_4194304/sockets/plasma_store"
        assert len(longest) <= 107
    finally:
        made.rmdir()


def test_only_a_directory_of_ours_is_ever_removed(tmp_path: Path) -> None:
    (tmp_path / "thesis").write_text("years of work")
    with pytest.raises(MosaicError, match=r"is not a directory that Mosaic made for Ray\. Nothing was removed"):
        clean_up({"temp_dir": str(tmp_path), "processes": []})
    assert (tmp_path / "thesis").exists()
    clean_up({"temp_dir": None, "address": "host:6379", "processes": []})
    clean_up({"temp_dir": str(tmp_path / "mosaic-ray-gone"), "processes": []})


def test_a_recorded_number_that_means_another_process_now_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "mosaic-ray-test"
    directory.mkdir()
    with subprocess.Popen(["sleep", "1000"]) as other:
        clean_up({"temp_dir": str(directory), "processes": [{"pid": other.pid, "start_time": 1.0}]})
        assert other.poll() is None
        other.kill()
    assert not directory.exists()


def test_a_process_recorded_in_an_earlier_boot_is_left_alone(tmp_path: Path) -> None:
    directory = tmp_path / "mosaic-ray-test"
    with subprocess.Popen(["sleep", "1000"]) as other:
        row = look(other.pid)
        assert row is not None
        record = {"temp_dir": str(directory), "processes": [{"pid": row.pid, "start_time": row.start_time}]}
        clean_up({**record, "boot": "00000000-0000-0000-0000-000000000000"})
        assert other.poll() is None
        clean_up({**record, "boot": boot_id()})
        assert other.wait(60) == -signal.SIGKILL


@pytest.mark.slow
def test_a_session_works_and_leaves_nothing() -> None:
    import ray

    class Double:  # in here, so that it travels to the actor whole: there is no test module over there
        def of(self, number: int) -> int:
            return 2 * number

    records: list[dict[str, Any]] = []
    before, environment = signal.getsignal(signal.SIGTERM), dict(os.environ)
    others = set(psutil.Process().children(recursive=True))  # of earlier tests: multiprocessing's resource tracker
    with ray_session(1, record=records.append) as session:
        started = psutil.Process().children(recursive=True)
        assert session.temp_dir is not None
        assert session.temp_dir.stat().st_mode & 0o077 == 0, "other users may look inside"
        double = ray.remote(Double).remote()
        assert ray.get(double.of.remote(21)) == 42
        assert signal.getsignal(signal.SIGTERM) is before, "stopping a run is not Ray's business"
        assert ray.cluster_resources()["CPU"] == session.cpus == 1
        started += psutil.Process().children(recursive=True)
        with pytest.raises(MosaicError, match="already running in this process"), ray_session(1):
            pytest.fail("a session inside a session")
    assert [bool(record["processes"]) for record in records] == [False, True]
    assert json.loads(json.dumps(records[-1])) == records[-1]
    assert records[0]["temp_dir"] == records[1]["temp_dir"] == str(session.temp_dir)
    assert not session.temp_dir.exists()
    assert {process.name() for process in started if process not in others and _is_alive(process)} == set()
    assert dict(os.environ) == environment


@pytest.mark.slow
@pytest.mark.chosen
def test_nothing_is_left_of_a_killed_driver() -> None:
    with _driver() as driver:
        record, started = _wait_until_up(driver)
        driver.kill()
        driver.wait()
    assert _is_alive(started[-1]), "what the actor left behind ends by itself: the test shows nothing"
    clean_up(record)
    assert {process.pid for process in started if _is_alive(process)} == set()
    assert not Path(record["temp_dir"]).exists()


@pytest.mark.slow
def test_nothing_is_left_of_a_driver_killed_before_it_could_record_its_processes() -> None:
    with _driver() as driver:
        record, started = _wait_until_up(driver)
        driver.kill()
        driver.wait()
    clean_up({**record, "processes": []})
    assert {process.pid for process in started if _is_alive(process)} == set()
    assert not Path(record["temp_dir"]).exists()


@pytest.mark.slow
def test_nothing_is_left_of_a_driver_that_fails() -> None:
    with _driver("crash") as driver:
        record, started = _wait_until_up(driver)
        _, errors = driver.communicate("", timeout=60)
    assert driver.returncode == 1
    assert "the learner fell over" in errors
    assert {process.pid for process in started if _is_alive(process)} == set()
    assert not Path(record["temp_dir"]).exists()


@pytest.mark.slow
def test_a_given_cluster_is_used_and_left_running() -> None:
    """The cluster is another driver's session; its token is what its users would have in their environment."""
    environment = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}
    with _driver(environment=environment) as driver:
        record, started = _wait_until_up(driver)
        command = [sys.executable, "-c", JOINER, record["address"]]
        joined = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
        assert joined.stdout.splitlines() == [
            f"The run asks for 5 CPUs and the Ray cluster at {record['address']} has 1, 1 of them free.",
            f"joined {record['address']}, recorded no process, got 42",
        ], joined.stderr
        core = {row["pid"] for row in record["processes"]}
        assert all(_is_alive(process) for process in started if process.pid in core and process.name() != "ray::IDLE")
        driver.communicate("", timeout=60)
    assert {process.pid for process in started if _is_alive(process)} == set()


def _driver(*arguments: str, environment: dict[str, str] | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", DRIVER, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)


def _wait_until_up(driver: subprocess.Popen[str]) -> tuple[dict[str, Any], list[psutil.Process]]:
    """The record and every process that the session has by then."""
    assert driver.stdout is not None
    lines: dict[str, Any] = {}
    while "sleeper" not in lines:
        line = driver.stdout.readline()
        assert line, driver.stderr and driver.stderr.read()
        lines |= json.loads(line)
    started = [*psutil.Process(driver.pid).children(recursive=True), psutil.Process(lines["sleeper"])]
    assert len(started) > 5
    return lines["record"], started


def _is_alive(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
