"""Training on a Ray cluster of two nodes, one of which is lost; and what is left of a run that was killed."""

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from mosaic.runs.processes import marked
from mosaic.runs.trainer import Trainer
from mosaic.runtimes.ray.processes import kill, processes_of
from mosaic.workers.ray_record import RAY

RUNNER = "SingleAgentEnvRunner"  # how Ray names the process of an env runner
TINY = {
    "train_batch_size_per_learner": 256,
    "minibatch_size": 128,
    "num_epochs": 1,
    "fcnet_hiddens": [8],
    "report_every_steps": 1,
    "sample_timeout_s": 30,
}
ENDLESS = 10**9
PATIENCE_S = 180


class Cluster:
    """`ray start`, as a user would type it on each machine, in a directory of its own."""

    def __init__(self):
        self.directory = Path(tempfile.mkdtemp(prefix="their-ray-", dir="/tmp"))
        token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
        self.environment = {**os.environ, **token, "RAY_USAGE_STATS_ENABLED": "0"}
        self.environment.pop("RAY_ADDRESS", None)

    def start(self, *arguments):
        """The processes of the new node: when the command returns, it is up."""
        before = processes_of(self.directory)
        command = [str(Path(sys.executable).parent / "ray"), "start", "--object-store-memory=80000000", *arguments]
        subprocess.run(
            [*command, "--disable-usage-stats"], env=self.environment, check=True, capture_output=True, timeout=120
        )
        return processes_of(self.directory) - before

    def head(self, cpus):
        node = self.start(
            "--head", "--port=0", f"--num-cpus={cpus}", f"--temp-dir={self.directory}", "--include-dashboard=false"
        )
        words = [word for process in node for word in psutil.Process(process.pid).cmdline()]
        self.address = next(word.partition("=")[2] for word in words if word.startswith("--gcs-address="))
        return node

    def join(self, cpus):
        return self.start(f"--address={self.address}", f"--num-cpus={cpus}")

    def close(self):
        while left := processes_of(self.directory):
            kill(left, 30.0)
        shutil.rmtree(self.directory)


@pytest.fixture
def cluster():
    made = Cluster()
    try:
        yield made
    finally:
        made.close()


def runners_below(node):
    """Env runners that a node started: its raylet is their parent."""
    found = set()
    for process in node:
        if psutil.pid_exists(process.pid):
            children = psutil.Process(process.pid).children(recursive=True)
            found |= {child.pid for child in children if any(RUNNER in word for word in child.cmdline())}
    return found


def train(cluster, home, runners, monkeypatch):
    """As typed: `mosaic train … --num-env-runners … --ray-address …`."""
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, cluster.environment[name])  # for the attempts that this process starts
    settings = [f"--set=training.params.{key}={json.dumps(value)}" for key, value in TINY.items()]
    command = [
        str(Path(sys.executable).parent / "mosaic"), "train", "gym/CartPole-v1", "--worker", "rllib", "--algo", "ppo",
        "--steps", str(ENDLESS), "--ray-address", cluster.address, "--num-env-runners", str(runners),
        "--detach", "--json", "--set=evaluation.episodes=1", *settings,
    ]  # fmt: skip
    done = subprocess.run(
        command, env={**cluster.environment, "MOSAIC_HOME": str(home)}, capture_output=True, text=True, timeout=120,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return Trainer(home).run("latest")


def iterations(run, after=0, attempt=1):
    """Events of iterations, as they come; those that the clock asked for tell nothing new."""
    for event in run.events(follow=True):
        if event.get("trigger") == "clock":
            continue
        if event["kind"] == "iteration" and event["env_steps"] > after and event["attempt"] == attempt:
            yield event
    raise AssertionError(f"it ended: {run.record().state}\n{run.log()}")


@pytest.mark.slow
def test_a_run_on_two_nodes_goes_on_when_one_is_lost(cluster, tmp_path, monkeypatch):
    first, second = cluster.head(1), cluster.join(1)
    run = train(cluster, tmp_path, 2, monkeypatch)
    steps = next(iterations(run))["env_steps"]
    assert (len(runners_below(first)), len(runners_below(second))) == (1, 1)
    kill({process for process in processes_of(cluster.directory, second) if _belongs(process.pid, second)}, 30.0)
    assert runners_below(second) == set()
    later = iterations(run, after=steps)
    lost = next(event for event in later if event["custom_metrics"].get("num_healthy_workers") == 1)
    onward = next(event for event in later if event["env_steps"] > lost["env_steps"] + 1024)
    assert onward["episode_reward_mean"] > 0
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped", run.log()
    assert run.checkpoints()[-1].env_steps >= onward["env_steps"]
    assert not (run.folder.path / RAY).exists()
    for runner in runners_below(first):  # the cluster ends them, once it has noticed that the run is gone
        with suppress(psutil.NoSuchProcess):
            psutil.Process(runner).wait(PATIENCE_S)
    assert runners_below(first) == set()
    assert any(psutil.pid_exists(process.pid) for process in first)  # the cluster is not ours to end


def _belongs(pid, node):
    """To a node: one of its processes, or something that one of them started."""
    pids = {process.pid for process in node}
    try:
        return pid in pids or any(parent.pid in pids for parent in psutil.Process(pid).parents())
    except psutil.Error:
        return False


@pytest.mark.slow
def test_a_run_whose_last_runner_is_lost_says_so_and_resumes_on_another_node(cluster, tmp_path, monkeypatch):
    cluster.head(0)
    node = cluster.join(1)
    run = train(cluster, tmp_path, 1, monkeypatch)
    next(iterations(run))
    saved = run.checkpoint().env_steps
    kill({process for process in processes_of(cluster.directory, node) if _belongs(process.pid, node)}, 30.0)
    assert run.wait(PATIENCE_S) == "failed", run.log()
    assert "No env runner is left" in run.reason
    cluster.join(1)
    run.resume()
    assert next(iterations(run, attempt=2))["env_steps"] > saved
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped", run.log()
    assert not (run.folder.path / RAY).exists()


@pytest.mark.slow
def test_a_run_goes_on_with_the_number_of_runners_that_is_asked_for_or_not_at_all(cluster, tmp_path, monkeypatch):
    node = cluster.head(2)
    run = train(cluster, tmp_path, 1, monkeypatch)
    next(iterations(run))
    assert len(runners_below(node)) == 1
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped", run.log()
    saved = run.checkpoints()[-1].env_steps
    run.resume(resources={"num_env_runners": 2})  # as many as the cluster has CPUs, and as Mosaic would pick
    assert next(iterations(run, attempt=2))["env_steps"] > saved
    assert len(runners_below(node)) == 2
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped", run.log()
    run.resume(resources={"num_env_runners": 3})
    assert run.wait(PATIENCE_S) == "failed"
    assert f"3 env runners cannot be placed: the Ray cluster at {cluster.address} has 2 CPUs" in run.reason
    started = [event["num_env_runners"] for event in run.events() if event["kind"] == "started"]
    assert started == [1, 2, 3]
    assert run.checkpoints()[-1].env_steps >= saved


def embedded(home):
    """A run with a Ray of its own, on this machine."""
    return Trainer(home).submit(
        {
            "environment": {"env_id": "gym/CartPole-v1"},
            "training": {
                "worker": "rllib",
                "algorithm": "ppo",
                "preset": False,
                "total_timesteps": ENDLESS,
                "params": {**TINY, "num_env_runners": 1},
            },
            "evaluation": {"episodes": 1},
        }
    )


@pytest.mark.slow  # tables on Ray are killed in `make test`: what is left of their Ray is removed in the same way
def test_nothing_is_left_of_a_worker_that_was_killed_and_the_run_resumes(tmp_path):
    run = embedded(tmp_path)
    next(iterations(run))
    temp_dir = Path(json.loads((run.folder.path / RAY).read_text())["temp_dir"])
    saved = run.checkpoint().env_steps
    os.kill(run.record().attempts[-1].worker.pid, signal.SIGKILL)
    assert run.wait(PATIENCE_S) == "failed"
    assert not temp_dir.exists()
    assert processes_of(temp_dir) == set()
    assert not (run.folder.path / RAY).exists()
    run.resume()
    assert next(iterations(run, attempt=2))["env_steps"] > saved
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped", run.log()
    assert not marked(run.id)


@pytest.mark.slow
def test_nothing_is_left_of_a_supervisor_that_was_killed(tmp_path):
    run = embedded(tmp_path)
    next(iterations(run))
    temp_dir = Path(json.loads((run.folder.path / RAY).read_text())["temp_dir"])
    os.kill(run.record().attempts[-1].supervisor.pid, signal.SIGKILL)
    assert run.wait(PATIENCE_S) == "lost", run.log()
    run.resume()
    next(iterations(run, attempt=2))
    assert not temp_dir.exists()
    assert processes_of(temp_dir) == set()
    run.stop()
    assert run.wait(PATIENCE_S) == "stopped", run.log()
    assert not marked(run.id)
