"""Sinks of tracking services: what each is sent, and that a resumed run continues the same remote run.

The quick tests use doubles that have exactly the calls that the sinks make; the slow ones the real packages, in an
environment of their own, without a network.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import sysconfig
import threading
import types
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic.core.plugins import plugins
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.sinks.base import mirror
from mosaic.telemetry.sinks.tracking import TrackingSink
from mosaic.workers.host import mirrored

SERVICES = ["wandb", "mlflow", "trackio"]
RUN = "20261117-120000-abc"
CONFIG = {"name": "mine", "tags": ["a"], "seed": 3, "environment": {"env_id": "gym/CartPole-v1", "options": {}}}


def train(run: Path, attempt: int) -> None:
    run.mkdir(parents=True, exist_ok=True)
    (run / "config.json").write_text(json.dumps(CONFIG))
    with EventWriter(run / "metrics.jsonl", attempt=attempt, clock=lambda: 100.0) as writer:
        if attempt == 1:
            writer.report(env_steps=10, episode_reward_mean=1.0)
            writer.report(kind="alert", message="hot")
            writer.report(env_steps=20, episode_reward_mean=float("nan"), policies={"a&b": {"learner": {"loss": 0.5}}})
        else:
            writer.report(kind="resumed", from_env_steps=10)
            writer.report(env_steps=15, episode_reward_mean=1.5)


def send(run: Path, name: str) -> None:
    stop = threading.Event()
    stop.set()
    mirror(run, [name], stop)


def twice(run: Path, name: str) -> None:
    """Two sessions; the second is that of a resumed run."""
    for attempt in (1, 2):
        train(run, attempt)
        send(run, name)


class Calls(list[tuple[str, Any]]):
    """Double of a module's functions: each call is kept, by name, with its arguments."""

    def named(self, name: str, result: Any = None) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            self.append((name, options or arguments))
            return result

        return call

    def of(self, name: str) -> list[Any]:
        return [what for called, what in self if called == name]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[Calls]:
    found = Calls()
    for name in ("WANDB_PROJECT", "MLFLOW_EXPERIMENT_NAME", "TRACKIO_PROJECT"):
        monkeypatch.delenv(name, raising=False)
    yield found
    for name in SERVICES:
        sys.modules.pop(f"mosaic.telemetry.sinks.{name}", None)


def install(monkeypatch: pytest.MonkeyPatch, name: str, **parts: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(parts)
    monkeypatch.setitem(sys.modules, name, module)


def test_wandb_gets_each_event_once_under_the_runs_id(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[dict[str, float], int]] = []
    run = types.SimpleNamespace(
        define_metric=calls.named("define_metric"),
        log=lambda numbers, step: sent.append((numbers, step)),
        finish=calls.named("finish"),
    )
    install(monkeypatch, "wandb", init=calls.named("init", run), Settings=calls.named("Settings"))
    twice(tmp_path / RUN, "wandb")
    assert [(each["id"], each["resume"], each["project"]) for each in calls.of("init")] == [
        (RUN, "allow", "mosaic")
    ] * 2
    assert calls.of("init")[0]["config"] == CONFIG
    assert sent == [
        ({"env_steps": 10.0, "episode_reward_mean": 1.0}, 1),
        ({"env_steps": 20.0, "policies/a&b/learner/loss": 0.5}, 3),
        ({"resumed/from_env_steps": 10.0}, 4),
        ({"env_steps": 15.0, "episode_reward_mean": 1.5}, 5),
    ]
    assert len(calls.of("finish")) == 2
    assert json.loads((tmp_path / RUN / "wandb.sink.json").read_text()) == {"sent": 5}


def test_trackio_finds_the_run_by_a_name_with_its_id(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[tuple[dict[str, float], int | None]] = []
    run = types.SimpleNamespace(log=lambda numbers, step: sent.append((numbers, step)), finish=calls.named("finish"))
    install(monkeypatch, "trackio", init=calls.named("init", run))
    monkeypatch.setenv("TRACKIO_PROJECT", "ours")
    twice(tmp_path / RUN, "trackio")
    assert {(each["project"], each["name"], each["resume"]) for each in calls.of("init")} == {
        ("ours", f"mine {RUN}", "allow")
    }
    assert [step for _, step in sent] == [10, 20, None, 15]


def test_mlflow_continues_the_run_with_the_tag(calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    batches: list[dict[str, Any]] = []

    def create(experiment: str, tags: dict[str, str], run_name: str) -> Any:
        assert (experiment, run_name, tags["mosaic.run_id"]) == ("7", "mine", RUN)
        runs.append(types.SimpleNamespace(info=types.SimpleNamespace(run_id="remote")))
        return runs[-1]

    class Client:
        get_experiment_by_name = staticmethod(
            lambda name: types.SimpleNamespace(experiment_id="7") if runs and name == "mosaic" else None
        )
        create_experiment = staticmethod(calls.named("create_experiment", "7"))
        search_runs = staticmethod(lambda experiments, text, max_results: runs[:max_results] if RUN in text else [])
        create_run = staticmethod(create)
        update_run = staticmethod(calls.named("update_run"))
        log_batch = staticmethod(lambda run_id, **what: batches.append({"run": run_id, **what}))
        set_terminated = staticmethod(calls.named("set_terminated"))

    install(monkeypatch, "mlflow")
    entities = {"Metric": lambda *what: what, "Param": lambda *what: what}
    install(monkeypatch, "mlflow.entities", **entities)
    install(monkeypatch, "mlflow.exceptions", MlflowException=type("MlflowException", (Exception,), {}))
    install(monkeypatch, "mlflow.tracking", MlflowClient=Client, get_tracking_uri=calls.named("get_tracking_uri"))
    twice(tmp_path / RUN, "mlflow")
    assert len(runs) == 1
    assert calls.of("create_experiment") == [("mosaic",)]
    assert calls.of("update_run") == [{"status": "RUNNING"}]
    assert len(calls.of("set_terminated")) == 2
    assert dict(batches[0]["params"])["environment.env_id"] == "gym/CartPole-v1"
    metrics = [metric for batch in batches for metric in batch.get("metrics", ())]
    assert ("episode_reward_mean", 1.5, 100_000, 15) in metrics
    assert ("policies/a_b/learner/loss", 0.5, 100_000, 20) in metrics  # MLflow allows no '&' in a name


def test_an_address_that_mlflow_refuses_is_explained_without_its_password(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = type("MlflowException", (Exception,), {})

    def refuse() -> None:
        raise error("Model registry functionality is unavailable; got unsupported URI 'mysql://me:secret@host/runs'")

    install(monkeypatch, "mlflow")
    install(monkeypatch, "mlflow.entities", Metric=None, Param=None)
    install(monkeypatch, "mlflow.exceptions", MlflowException=error)
    address = calls.named("get_tracking_uri", "mysql://me:secret@host/runs")
    install(monkeypatch, "mlflow.tracking", MlflowClient=refuse, get_tracking_uri=address)
    run = tmp_path / RUN
    train(run, 1)
    with EventWriter(run / "metrics.jsonl", attempt=1) as writer, mirrored(run, ["mlflow"], writer):
        pass
    alerts = [event["message"] for event in read_events(run / "metrics.jsonl") if event["kind"] == "alert"]
    assert "an address that begins with 'mysql:'. Set MLFLOW_TRACKING_URI to a server" in alerts[-1]
    assert "secret" not in alerts[-1]


def test_a_session_that_is_killed_leaves_no_event_to_be_sent_again(tmp_path: Path) -> None:
    run = tmp_path / RUN
    train(run, 1)
    sent: list[int] = []
    tracker = types.SimpleNamespace(log=lambda numbers, event: sent.append(event["seq"]), finish=lambda: None)
    for _ in range(2):  # the first is never closed
        sink = TrackingSink("wandb", run, tracker)
        for event in read_events(run / "metrics.jsonl"):
            sink.write(event)
    assert sent == [1, 3]


def test_a_service_that_fails_stops_neither_the_run_nor_other_mirrors(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: object) -> None:
        raise RuntimeError("no API key")

    install(monkeypatch, "wandb", init=refuse, Settings=calls.named("Settings"))
    run = tmp_path / RUN
    train(run, 1)
    with EventWriter(run / "metrics.jsonl", attempt=1) as writer, mirrored(run, ["wandb", "csv"], writer):
        writer.report(env_steps=30, episode_reward_mean=3.0)
    alerts = [event["message"] for event in read_events(run / "metrics.jsonl") if event["kind"] == "alert"]
    assert alerts[-1] == "The mirror wandb stopped: RuntimeError: no API key"
    assert "3.0" in (run / "metrics.csv").read_text()


def test_a_service_that_hangs_delays_the_end_of_a_run_for_a_while_and_is_reported(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reached = threading.Event()
    install(monkeypatch, "wandb", init=lambda **_: reached.wait(), Settings=calls.named("Settings"))
    monkeypatch.setattr("mosaic.workers.host.MIRRORS_END_WITHIN_S", 0.0)
    run = tmp_path / RUN
    train(run, 1)
    with EventWriter(run / "metrics.jsonl", attempt=1) as writer, mirrored(run, ["wandb"], writer):
        writer.report(env_steps=30, episode_reward_mean=3.0)
    alerts = [event["message"] for event in read_events(run / "metrics.jsonl") if event["kind"] == "alert"]
    assert alerts[-1] == "The mirror wandb did not finish within 0 s; it may lack events."
    (thread,) = [each for each in threading.enumerate() if each.name == "mirror wandb"]
    monkeypatch.setattr("mosaic.workers.host.alert", calls.named("alert"))  # the run's file is closed
    reached.set()
    thread.join(60)
    assert not thread.is_alive()


def test_each_service_is_an_entry_point() -> None:
    assert set(SERVICES) <= set(plugins("mosaic.sinks"))


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment above this one with the services' packages, whose dependencies differ from ours."""
    folder = tmp_path_factory.mktemp("services") / "venv"
    venv.create(folder, with_pip=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    ours = [sysconfig.get_path("purelib"), *(path for path in sys.path if path.endswith(("site-packages", "src")))]
    (site / "ours.pth").write_text("\n".join(dict.fromkeys(ours)))
    packages = ["wandb>=0.31", "mlflow-skinny>=3.17", "trackio>=0.43"]
    command = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "bin" / "python"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", SERVICES)
def test_with_the_real_package(packages: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    run = tmp_path / "runs" / RUN
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", (tmp_path / "mlruns").as_uri())
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path / "trackio"))
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[3]))
    code = (
        "import pathlib, sys; from tests.telemetry.sinks.test_tracking import twice; "
        "twice(pathlib.Path(sys.argv[1]), sys.argv[2])"
    )
    done = subprocess.run([packages, "-c", code, run, name], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    if name == "wandb":
        assert len(list(run.glob(f"wandb/offline-run-*-{RUN}*/run-{RUN}.wandb"))) == 2  # `wandb sync` joins them
    elif name == "mlflow":
        (file,) = tmp_path.glob("mlruns/*/*/metrics/episode_reward_mean")
        assert [line.split()[1:] for line in file.read_text().splitlines()] == [["1.0", "10"], ["1.5", "15"]]
        monkeypatch.delenv("MLFLOW_TRACKING_URI")
        empty = tmp_path / "empty"  # elsewhere MLflow would take the folder mlruns for its store
        empty.mkdir()
        refused = subprocess.run([packages, "-c", code, run, name], capture_output=True, text=True, cwd=empty)
        assert "Set MLFLOW_TRACKING_URI to a server" in refused.stderr
    else:
        with sqlite3.connect(tmp_path / "trackio" / "mosaic.db") as store:
            rows = store.execute("SELECT run_name, step, metrics FROM metrics ORDER BY id").fetchall()
        assert {row[0] for row in rows} == {f"mine {RUN}"}
        assert [(row[1], json.loads(row[2]).get("episode_reward_mean")) for row in rows if row[1] in (10, 15)] == [
            (10, 1.0),
            (15, 1.5),
        ]
