"""Exports while a run trains: which checkpoints, when, and what becomes of failures, stops and removed checkpoints."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic.config.export import ExportConfig, ExportRequest
from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError
from mosaic.exports import during_training
from mosaic.exports.during_training import exporting
from mosaic.runs.exporting import job_report
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoints import Retention, holding, list_checkpoints, prune
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.store.store import Store
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from mosaic.workers.resolution import resolve
from tests.exports.conftest import config
from tests.store.store_cases import config as toy_config
from tests.store.store_cases import steps_of, write

DONE = {"state": "finished", "export_id": "one", "files": 1, "max_abs_diff": 1e-7, "action_agreement": 1.0}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return Store(tmp_path).create(toy_config())


@pytest.fixture
def writer(folder: RunFolder) -> Iterator[EventWriter]:
    with EventWriter(folder.metrics, 1) as opened:
        yield opened


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ExportRequest]:
    """Requests of jobs, all of which succeed."""
    seen: list[ExportRequest] = []

    def job(self: object, request: ExportRequest) -> dict[str, Any]:
        seen.append(request)
        return DONE

    monkeypatch.setattr(during_training._RunExports, "_ended_job", job)
    return seen


def save(folder: RunFolder, writer: EventWriter, steps: int, reward: float) -> None:
    write(folder, steps, reward)
    writer.report(kind="checkpoint", env_steps=steps)


def never(timeout_s: float) -> bool:
    return False


def events(folder: RunFolder, kind: str) -> list[Any]:
    return [event for event in read_events(folder.metrics) if event["kind"] == kind]


def test_the_best_checkpoint_is_exported_once_and_the_last_at_the_end(
    folder: RunFolder, writer: EventWriter, asked: list[ExportRequest]
) -> None:
    wanted = ExportConfig(at_end=True, on_best=True, opset=15)
    with exporting(folder, wanted, Retention(), writer, never):
        for steps, reward in ((10, 1.0), (20, 5.0), (30, 2.0)):
            save(folder, writer, steps, reward)
    assert (asked[-2].checkpoint, asked[-1].checkpoint) == (20, 30)
    assert len({each.checkpoint for each in asked[:-1]}) == len(asked[:-1])
    assert {(each.opset, each.run, each.overwrite) for each in asked} == {(15, folder.run_id, True)}
    last = events(folder, "exported")[-1]
    assert (last["moment"], last["checkpoint"], last["max_abs_diff"]) == ("end", 30, 1e-7)
    assert last["path"] == str(folder.path / "exports" / "end-30")


def test_a_failed_export_is_an_alert_and_not_the_end_of_the_run(
    folder: RunFolder, writer: EventWriter, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = {"state": "failed", "export_id": "one", "reason": "1 of 1 files do not do what their policies do."}
    monkeypatch.setattr(during_training._RunExports, "_ended_job", lambda *_: failed)
    with exporting(folder, ExportConfig(at_end=True), Retention(), writer, never):
        save(folder, writer, 10, 1.0)
    (alert,) = events(folder, "alert")
    assert alert["message"] == (
        "The export of the last policies, at 10 env steps, failed: 1 of 1 files do not do what their policies do. "
        "Look at it: mosaic exports show one"
    )


def test_a_stopped_run_says_that_nothing_was_exported(
    folder: RunFolder, writer: EventWriter, asked: list[ExportRequest]
) -> None:
    wanted = ExportConfig(at_end=True, on_best=True)
    with exporting(folder, wanted, Retention(), writer, lambda _: True):
        save(folder, writer, 10, 1.0)
    assert asked == []
    (alert,) = events(folder, "alert")
    assert "stopped before its end" in alert["message"]


def test_a_stop_cancels_the_process_of_an_export(
    folder: RunFolder, writer: EventWriter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = tmp_path / "begun"
    program = (
        "import json, pathlib, signal; signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT]); "
        f"pathlib.Path({str(begun)!r}).touch(); signal.sigwait([signal.SIGINT]); "
        "print(json.dumps(dict(state='stopped', reason='asked to stop')))"
    )
    monkeypatch.setattr(during_training, "module_command", lambda *_: [sys.executable, "-c", program])
    with exporting(folder, ExportConfig(at_end=True), Retention(), writer, lambda _: begun.exists()):
        save(folder, writer, 10, 1.0)
    (alert,) = events(folder, "alert")
    assert alert["message"] == "The export of the last policies, at 10 env steps, was cancelled: asked to stop."


def test_a_checkpoint_is_not_removed_while_it_is_exported(folder: RunFolder) -> None:
    kept = Retention(keep_last=1, keep_best=0)
    write(folder, 10, keep_last=1, keep_best=0)
    (first,) = list_checkpoints(folder)
    with holding(first.path) as held:
        writing = threading.Thread(target=write, args=(folder, 20), kwargs={"keep_last": 1, "keep_best": 0})
        writing.start()
        writing.join()
        assert held is not None
        assert steps_of(list_checkpoints(folder)) == [10, 20]
    prune(folder, kept)
    assert steps_of(list_checkpoints(folder)) == [20]
    with holding(first.path) as held:
        assert held is None


def test_another_process_that_inherits_the_lock_holds_the_checkpoint_until_it_ends(folder: RunFolder) -> None:
    write(folder, 10, keep_last=2, keep_best=0)
    write(folder, 20, keep_last=2, keep_best=0)
    with holding(list_checkpoints(folder)[0].path) as held:
        assert held is not None
        other = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(held,))
    prune(folder, Retention(keep_last=1, keep_best=0))
    assert steps_of(list_checkpoints(folder)) == [10, 20]
    other.kill()
    other.communicate()
    prune(folder, Retention(keep_last=1, keep_best=0))
    assert steps_of(list_checkpoints(folder)) == [20]


def test_the_process_of_a_job_reports_its_files_and_its_failures(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def reported(**request: object) -> dict[str, Any]:
        monkeypatch.setattr(sys, "argv", ["job_report", ExportRequest(**request).model_dump_json()])  # type: ignore[arg-type]
        assert job_report.main() == 0
        return json.loads(capsys.readouterr().out.splitlines()[-1])  # type: ignore[no-any-return]

    monkeypatch.setattr(job_report.signal, "signal", lambda *_: None)
    done = reported(run="hands", out="files")
    assert (done["state"], done["files"], done["action_agreement"]) == ("finished", 2, 1.0)
    assert ExportJobs().row(done["export_id"]).state is State.FINISHED
    assert "no checkpoint at 7 env steps" in reported(run="hands", checkpoint=7)["reason"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"export": {"target": "godot"}}, "'target' has no effect without an export"),
        ({"export": {"at_end": True, "opset": 999}}, "opset"),
        ({"export": {"at_end": True}, "checkpoint": {"at_end": False}}, "checkpoint.at_end is false"),
        (
            {"export": {"on_best": True}, "training": {"worker": "toy", "algorithm": "walk"}},
            "toy cannot honour export.",
        ),
        ({"export": {"on_best": True, "on_bets": True}}, "on_best"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_the_run(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError, match=reason.replace(".", r"\.")):
        resolve(parse_run_config(config("gym/FrozenLake-v1", "lake", **changes)))


@pytest.mark.slow
def test_a_run_writes_files_of_its_best_and_last_policies(tmp_path: Path) -> None:
    wanted = {"export": {"at_end": True, "on_best": True}}
    run = Trainer(tmp_path).submit(config("gym/FrozenLake-v1", "lake", **wanted))
    assert run.wait() is State.FINISHED
    written = events(run.folder, "exported")
    assert {event["moment"] for event in written} == {"best", "end"}
    for event in written:
        assert Path(event["path"], "policies.json").is_file()
        assert event["action_agreement"] == 1.0
    assert {row.request.run for row in ExportJobs(Store(tmp_path)).rows()} == {run.id}
