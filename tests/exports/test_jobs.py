"""Tests of export jobs: history, progress, comparison reports, cancel, full disks, and what may be downloaded."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mosaic.config.export import ExportRequest, parse_export
from mosaic.core.errors import InputError, UnknownNameError
from mosaic.exports import export as export_module
from mosaic.exports.tracing import TracedPolicy, trace_policy
from mosaic.runs.exporting import jobs
from mosaic.runs.exporting.jobs import ExportChangedError, ExportJobs
from mosaic.runs.exporting.process import ExportStoppedError, StopSwitch
from mosaic.runs.exporting.record import PROGRESS, ProgressRow
from mosaic.store.checkpoints import Retention, list_checkpoints, prune
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State, read_written_state, write_state
from mosaic.store.store import Store
from mosaic.telemetry.events.reader import read_events
from mosaic.ui.cli.main import main
from tests.exports.conftest import config
from tests.in_process import attempt_here, trained_here


def test_a_job_keeps_its_files_report_and_history(here: Path) -> None:
    there = ExportJobs()
    row = there.start(ExportRequest(run="hands"))
    assert (row.state, row.reason, row.share, row.exit_code) == (State.FINISHED, "", 1.0, 0)
    assert row.request.policies == ("player_0", "player_1")
    assert isinstance(row.request.checkpoint, int)  # fixed: later, latest is another one
    assert [(each.policy, each.action_agreement, each.passed) for each in row.compared] == [
        ("player_0", 1.0, True),
        ("player_1", 1.0, True),
    ]
    folder = RunFolder(here.parent / "unused").path  # nothing is written to the working directory
    assert not folder.exists()
    assert os.listdir() == []
    assert {each.name for each in row.written} == {
        *("player_0.onnx", "player_1.onnx", "player_0.parity.json", "player_1.parity.json", "policies.json")
    }
    again = ExportJobs().row(row.export_id)
    assert again == row
    assert there.row("latest").export_id == row.export_id
    assert there.rows("hands")[0].export_id == row.export_id
    assert there.rows("lake") == [each for each in there.rows() if each.request.run != row.request.run]
    text = there.log(row.export_id).text
    assert "policy 2 of 2, 'player_1': comparing" in text
    assert "100.00% equal actions" in text
    assert list(there.follow(row.export_id)) == [row]
    assert there.cancel(row.export_id) == row  # too late: it stays finished


def test_progress_counts_policies_and_observations(here: Path) -> None:
    row = ExportJobs().start(ExportRequest(run="hands"))
    folder = Path(row.written[0].path).parent.parent
    seen = [
        ProgressRow.model_validate(each) for each in read_events(folder / "metrics.jsonl") if each["kind"] == PROGRESS
    ]
    steps = list(dict.fromkeys((each.number, each.step) for each in seen))
    assert steps == [
        *((1, step) for step in ("loading", "recording", "tracing", "comparing")),
        *((2, step) for step in ("loading", "recording", "tracing", "comparing", "writing")),
    ]
    last = [each for each in seen if each.step == "comparing"][-1]
    assert last.text == "policy 2 of 2, 'player_1': comparing, 1,000 of 1,000 observations"
    shares = [row.model_copy(update={"state": State.RUNNING, "progress": each}).share for each in seen]
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] < shares[-1] <= 1.0


def test_only_its_own_unchanged_files_are_given_out(here: Path) -> None:
    there = ExportJobs()
    row = there.start(ExportRequest(run="lake", out="lake.onnx"))
    assert row.request.out == str(here / "lake.onnx")
    assert there.file(row.export_id, "lake.onnx") == here / "lake.onnx"
    for name in ("../state.json", "state.json", str(here / "lake.onnx"), "request.json", ""):
        with pytest.raises(UnknownNameError, match=r"lake\.parity\.json"):
            there.file(row.export_id, name)
    for reference in ("..", "../runs", "nope", ""):
        with pytest.raises(InputError):
            there.row(reference)
    (here / "lake.onnx").write_bytes(b"another")
    with pytest.raises(ExportChangedError, match="not the file that was compared"):
        there.file(row.export_id, "lake.onnx")


def test_a_file_that_differs_fails_the_job(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def differs(*asked: Any) -> list[TracedPolicy]:
        return [replace(each, parity=replace(each.parity, max_abs_diff=float("inf"))) for each in trace_policy(*asked)]

    monkeypatch.setattr(export_module, "trace_policy", differs)
    row = ExportJobs().start(ExportRequest(run="lake", out="lake.onnx"))
    assert (row.state, row.exit_code, row.written) == (State.FAILED, 1, ())
    assert "1 of 1 files do not do what their policies do, and nothing was written" in row.reason
    assert [(each.passed, each.path, each.max_abs_diff) for each in row.compared] == [(False, None, None)]
    assert os.listdir() == []


def test_a_full_disk_fails_the_job_and_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = export_module.write_atomic

    def full(path: Path, content: bytes | str) -> None:
        if path.name == "policies.json":  # the last of them
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        whole(path, content)

    monkeypatch.setattr(export_module, "write_atomic", full)
    row = ExportJobs().start(ExportRequest(run="hands", out="files"))
    assert (row.state, row.exit_code) == (State.FAILED, 1)
    assert "No space left on device" in row.reason
    assert os.listdir("files") == []


@pytest.mark.parametrize(("run", "place"), [("lake", "lake.onnx"), ("hands", "files")])
def test_of_two_exports_to_one_place_the_second_fails(
    run: str, place: str, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def files() -> dict[Path, bytes]:
        return {each: each.read_bytes() for each in here.rglob("*") if each.is_file()}

    written: list[dict[Path, bytes]] = []

    def overtaken(*asked: Any) -> list[TracedPolicy]:
        made = trace_policy(*asked)
        if not written:
            monkeypatch.setattr(export_module, "trace_policy", trace_policy)
            assert ExportJobs().start(ExportRequest(run=run, out=place)).state is State.FINISHED
            written.append(files())
        return made

    monkeypatch.setattr(export_module, "trace_policy", overtaken)
    row = ExportJobs().start(ExportRequest(run=run, out=place))
    assert (row.state, row.exit_code) == (State.FAILED, 2)
    assert "exists. Name another place" in row.reason
    assert files() == written[0]


def test_its_checkpoint_is_kept_while_the_run_prunes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = {"worker": "native", "algorithm": "ppo", "preset": False, "total_timesteps": 3072}  # three rollouts
    run = trained_here(
        Store().home, config("gym/CartPole-v1", "pruned", training=training, checkpoint={"every_steps": 1000})
    )
    first, *_, last = list_checkpoints(run.folder)
    steps = {"started": [], "exported": []}

    def pruned(when: str) -> None:
        prune(run.folder, Retention(keep_last=1, keep_best=0))
        steps[when] = [each.env_steps for each in list_checkpoints(run.folder)]

    def started(*attempt: Any, inherited: tuple[int, ...], trust: bool) -> None:
        pruned("started")
        for lock in inherited:  # the export's own process holds the checkpoint again
            fcntl.flock(lock, fcntl.LOCK_UN)
        attempt_here(*attempt)

    def traced(*asked: Any) -> list[TracedPolicy]:
        pruned("exported")
        return trace_policy(*asked)

    monkeypatch.setattr(jobs, "start_attempt", started)
    monkeypatch.setattr(export_module, "trace_policy", traced)
    row = ExportJobs().start(ExportRequest(run="pruned", checkpoint=first.env_steps))
    assert row.state is State.FINISHED, row.reason
    assert set(map(tuple, steps.values())) == {(first.env_steps, last.env_steps)}
    pruned("exported")
    assert steps["exported"] == [last.env_steps]


def test_a_run_that_is_deleted_meanwhile(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: list[Any] = []
    monkeypatch.setattr(jobs, "start_attempt", lambda *started, **_: waiting.append(started))
    run = trained_here(Store().home, config("gym/FrozenLake-v1", "short-lived"))
    export_id = ExportJobs().start(ExportRequest(run="short-lived", out="lake.onnx")).export_id
    run.delete()
    attempt_here(*waiting[0])
    row = ExportJobs().row(export_id)
    assert (row.state, row.exit_code) == (State.FAILED, 2)
    assert f"There is no run '{run.id}'" in row.reason
    assert os.listdir() == []


def test_a_cancelled_job_leaves_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*asked: Any) -> list[TracedPolicy]:
        made = trace_policy(*asked)
        signal.raise_signal(signal.SIGINT)
        return made

    monkeypatch.setattr(export_module, "trace_policy", interrupted)
    row = ExportJobs().start(ExportRequest(run="lake", out="lake.onnx"))
    assert (row.state, row.written) == (State.STOPPED, ())
    assert os.listdir() == []
    assert "No file was written" in ExportJobs().log(row.export_id).text


def test_a_stop_while_files_are_written_comes_too_late() -> None:
    stop = StopSwitch()
    stop.check()
    stop.close()
    stop.ask("cancelled")  # raises nothing any more
    late = StopSwitch()
    with pytest.raises(ExportStoppedError, match="cancelled"):
        late.ask("cancelled")
    with pytest.raises(ExportStoppedError):
        late.close()


def test_a_job_whose_processes_died_is_lost(here: Path) -> None:
    row = ExportJobs().start(ExportRequest(run="lake"))
    folder = RunFolder(Path(row.written[0].path).parent.parent)
    write_state(folder, read_written_state(folder).model_copy(update={"state": State.RUNNING}))
    lost = ExportJobs().row(row.export_id)
    assert (lost.state, lost.exit_code, lost.written) == (State.LOST, 1, ())
    assert "its processes died before it had ended" in lost.reason
    ExportJobs().delete(row.export_id)
    assert not folder.path.exists()


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"run": "x", "checkpoint": "bast"}, "Did you mean 'best'?"),
        ({"run": "x", "target": "onix"}, "Did you mean 'onnx'?"),
        ({"run": "x", "tolerance": 0}, "tolerance"),
        ({"run": "x", "opst": 3}, "Did you mean 'opset'?"),
        ({"run": "x", "target": "torchscript", "opset": 17}, "belong to ONNX"),
        ({}, "run"),
    ],
)
def test_requests_that_make_no_sense(asked: dict[str, Any], reason: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_export(asked)
    assert reason in str(refused.value)


def test_commands_on_exports(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*words: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        assert ended.value.code == 0
        return capsys.readouterr().out

    export_id = said("export", "lake", "--out", "lake.onnx", "--detach").strip()
    assert export_id in said("exports", "list", "--run", "lake")

    def shown() -> str:
        row = said("exports", "list").partition(export_id)[2].partition("\n\n")[0]
        return "".join(row.split())  # a long path takes several lines

    assert "lake.onnx" in shown()
    folder = RunFolder(Store().home / jobs.EXPORTS / export_id)
    finished = read_written_state(folder)
    write_state(folder, finished.model_copy(update={"state": State.FAILED}))
    assert "lake.onnx" not in shown()  # it has written nothing
    write_state(folder, finished)
    assert export_id in said("exports")
    assert "100.00%" in said("exports", "show", "latest")
    assert "comparing" in said("exports", "log", export_id)
    assert f"{export_id} is finished." in said("exports", "cancel", export_id)
    assert f"{export_id} is deleted." in said("exports", "delete", export_id)
    assert Path("lake.onnx").is_file()  # in another place than the job's own
