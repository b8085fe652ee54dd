"""Training on a Ray cluster that somebody else started: found by itself, used, and left as it was."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from mosaic.core.errors import InputError
from mosaic.runtimes.ray import session as ray_runtime
from mosaic.runtimes.ray.processes import kill, processes_of
from mosaic.runtimes.ray.session import local_cluster, ray_session

TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}

TRAINER = """
import sys
import ray
from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.options import TabularOptions
from mosaic.runtimes.ray.session import ray_session
from mosaic.runtimes.ray.tabular import RayTraining

game = find_twin(EnvironmentConfig(env_id="classic/tictactoe_v3"))
records = []
with ray_session(1, "auto", records.append) as session:
    training = RayTraining(game, "q_learning", TabularOptions(), 7, actors=1, merge_every=20_000)
    training.advance(20_000)
    ray.kill(training._actors[0])
    training.advance(20_001)
    assert training.agent_steps == int(training.visits.sum()) == 40_001
    training.close()
print(session.address, session.temp_dir, records[0]["address"], len(records[0]["processes"]))
"""


@pytest.fixture
def cluster(monkeypatch):
    """`ray start --head`, as a user would type it, in a directory of its own; the address."""
    directory = ray_runtime.short_temp_dir(Path("/tmp"))
    theirs = directory.with_name(directory.name.replace("mosaic-ray-", "their-ray-"))
    directory.rename(theirs)
    environment = {**os.environ, **TOKEN, "RAY_USAGE_STATS_ENABLED": "0"}
    environment.pop("RAY_ADDRESS", None)
    command = [
        str(Path(sys.executable).parent / "ray"), "start", "--head", "--port=0", "--num-cpus=1", f"--temp-dir={theirs}",
        "--include-dashboard=false", "--object-store-memory=80000000", "--disable-usage-stats",
    ]  # fmt: skip
    try:
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        yield environment, theirs
    finally:
        while left := processes_of(theirs):
            kill(left, 30.0)
        subprocess.run(["rm", "-rf", str(theirs)], check=True)


@pytest.mark.slow
def test_auto_finds_it_trains_on_it_replaces_a_killed_actor_and_leaves_it_running(cluster):
    environment, directory = cluster
    if len(set(ray_runtime._running_clusters())) > 1:
        pytest.skip("another Ray cluster runs on this machine: which one is meant cannot be known")
    before = {process.pid for process in processes_of(directory) if _name(process.pid) in ("raylet", "gcs_server")}
    done = subprocess.run(
        [sys.executable, "-c", TRAINER], env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    *said, last = done.stdout.splitlines()
    assert any("Actor 0 died and is replaced; its 20,000 steps are done again." in line for line in said)
    address, temp_dir, recorded, processes = last.split()
    assert address == recorded
    assert (temp_dir, processes) == ("None", "0")
    assert before
    assert before <= {process.pid for process in processes_of(directory)}


def _name(pid):
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


class Node:
    """A process as psutil shows it."""

    def __init__(self, *arguments, name="raylet", user=0):
        self._name, self._arguments, self._user = name, list(arguments), os.getuid() + user

    def uids(self):
        return SimpleNamespace(real=self._user)

    def name(self):
        return self._name

    def cmdline(self):
        if not self._arguments:
            raise psutil.NoSuchProcess(1)
        return self._arguments


@pytest.fixture
def running(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)

    def run(*processes):
        monkeypatch.setattr(psutil, "process_iter", lambda: iter(processes))

    return run


def test_auto_is_the_one_cluster_of_this_machine(running):
    running(
        Node("raylet", "--gcs-address=10.0.0.1:6379", "--temp-dir=/tmp/ray"),
        Node("raylet", "--gcs-address=10.0.0.1:6379"),  # a second node of the same cluster
        Node("raylet", "--gcs-address=10.0.0.1:7777", "--temp-dir=/tmp/mosaic-ray-12345678/r"),  # another run's
        Node("vim", "--gcs-address=10.0.0.1:8888", name="vim"),
        Node("raylet", "--gcs-address=10.0.0.1:9999", user=1),  # somebody else's
        Node(),  # gone meanwhile
    )
    assert local_cluster() == "10.0.0.1:6379"


def test_without_a_cluster_auto_says_what_to_type(running):
    running()
    with (
        pytest.raises(InputError, match=r"there is none\. Start one with `ray start --head`, or leave ray_address out"),
        ray_session(1, "auto"),
    ):
        pytest.fail("a session nowhere")


def test_with_two_clusters_auto_asks_which(running):
    running(Node("raylet", "--gcs-address=b:2"), Node("raylet", "--gcs-address=a:1"))
    with pytest.raises(InputError, match=r"there are 2\. Say which: ray_address=a:1 or ray_address=b:2\."):
        local_cluster()


def test_auto_listens_to_the_environment_as_ray_does(running, monkeypatch):
    running(Node("raylet", "--gcs-address=a:1"))
    monkeypatch.setenv("RAY_ADDRESS", "elsewhere:6379")
    assert local_cluster() == "elsewhere:6379"
