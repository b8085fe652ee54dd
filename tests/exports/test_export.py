"""Tests of `mosaic export`: tables, several policies, refusals, and files that exist only if they are right."""

from __future__ import annotations

import errno
import json
import os
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import mosaic
from mosaic.core.errors import InputError, MosaicError
from mosaic.envs.catalog import make_env
from mosaic.evaluation.evaluate import evaluate
from mosaic.exports import export as export_module
from mosaic.exports.export import ExportFailedError
from mosaic.exports.tracing import TracedPolicy, trace_policy
from mosaic.policies.controller import PolicyRequest
from mosaic.store.checkpoint_record import environment_of
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.store import Store
from mosaic.ui.cli.main import main
from mosaic.workers.tabular.worker import TabularWorker
from tests.exports import targets


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", *words])
    code = ended.value.code
    assert isinstance(code, int)
    return code


def test_a_table_becomes_a_file_that_plays(here: Path) -> None:
    (file,) = mosaic.export("lake", "lake.onnx")
    assert (file.policy, file.path, file.agents) == ("table", Path("lake.onnx"), ("agent_0",))
    assert file.parity.passed
    assert file.parity.recorded + file.parity.random == 1000
    model = onnx.load("lake.onnx")
    assert "Gather" in {node.op_type for node in model.graph.node}
    report = json.loads(Path("lake.parity.json").read_text())
    assert (report["max_abs_diff"], report["action_agreement"]) == (0.0, 1.0)
    found = evaluate("gym/FrozenLake-v1", {"*": "onnx:lake.onnx"}, episodes=2)
    assert len(found.episode_results) == 2
    assert sorted(os.listdir()) == ["lake.onnx", "lake.parity.json"]


def test_a_table_in_every_form(here: Path) -> None:
    found = find_checkpoint(Store().resolve("lake"), "latest")
    worker, trained_in = TabularWorker(), environment_of(found)
    with closing(make_env(trained_in)) as env:
        asked = PolicyRequest("run:lake", env.spec, env.possible_agents)
    targets.check_targets(
        lambda: (worker.controller(found, "table", asked), worker.exportable(found, "table", asked)), asked
    )


def test_all_policies_of_a_run(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("hands", "--out", "files", "--json") == 0
    files = json.loads(capsys.readouterr().out)["files"]
    assert {file["policy"]: file["action_agreement"] for file in files} == {"player_0": 1.0, "player_1": 1.0}
    assert all(set(file) >= {"policy", "path", "max_abs_diff", "action_agreement"} for file in files)
    mapping = json.loads(Path("files/policies.json").read_text())
    assert mapping["agents"] == {"player_0": "player_0.onnx", "player_1": "player_1.onnx"}
    for each in mapping["policies"]:
        mosaic.load_policy(f"onnx:files/{each['path']}", "classic/rps_v2", tuple(each["agents"])).close()
    assert command("hands", "--out", "one.onnx", "--policy", "player_1") == 0
    assert Path("one.onnx").is_file()


def test_a_file_that_differs_is_not_kept(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def second_fails(checkpoint: Any, policy: str, *also: Any) -> list[TracedPolicy]:
        made = trace_policy(checkpoint, policy, *also)
        if policy == "player_0":
            return made
        return [replace(each, parity=replace(each.parity, action_agreement=0.5)) for each in made]

    monkeypatch.setattr(export_module, "trace_policy", second_fails)
    Path("old.onnx").write_bytes(b"older")
    assert command("hands", "--out", "files") == 1
    said = capsys.readouterr().err
    assert "1 of 2 files do not do what their policies do, and nothing was written" in said
    assert "'player_1': outputs differ by up to 0 (allowed: 0.0001), 50.00% of the actions are equal" in said
    assert "Without a failure: player_0. Type, to export only such: --policy player_0" in " ".join(said.split())
    assert command("hands", "--policy", "player_1", "--out", "old.onnx", "--overwrite") == 1
    assert os.listdir() == []  # an older file would be taken for the result
    with pytest.raises(ExportFailedError):
        mosaic.export("hands", "files")


@pytest.mark.parametrize(("error", "code"), [(MosaicError("no graph"), 1), (InputError("too large"), 2)])
def test_a_policy_without_a_file_is_named_with_the_others(
    error: MosaicError, code: int, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def first_fails(checkpoint: Any, policy: str, *also: Any) -> list[TracedPolicy]:
        if policy == "player_0":
            raise error
        return []

    monkeypatch.setattr(export_module, "trace_policy", first_fails)
    assert command("hands", "--out", "files") == code
    said = " ".join(capsys.readouterr().err.split())
    assert f"1 of 2 policies cannot be exported, and nothing was written. 'player_0': {error}" in said
    assert "Without a failure: player_1. Type, to export only such: --policy player_1" in said
    assert os.listdir() == []


def test_files_are_not_replaced_unless_asked(here: Path) -> None:
    Path("kept").write_text("outside")
    Path("lake.onnx").symlink_to("kept")
    with pytest.raises(InputError, match=r"lake\.onnx exists\. Name another place, or replace it with --overwrite"):
        mosaic.export("lake", "lake.onnx")
    mosaic.export("lake", "lake.onnx", overwrite=True)
    assert Path("kept").read_text() == "outside"  # a link is replaced, not what it points to
    assert not Path("lake.onnx").is_symlink()
    Path("full").mkdir()
    Path("full/table.onnx").write_bytes(b"older")
    with pytest.raises(InputError, match=r"full/table\.onnx exists"):
        mosaic.export("lake", "full")


def test_a_place_that_cannot_be_written_is_named_and_nothing_is_left(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("file").write_text("mine")
    assert command("lake", "--out", "file/below/lake.onnx") == 2
    assert "/file is not a folder. Name another place with --out." in " ".join(capsys.readouterr().err.split())

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(export_module, "write_atomic", full)  # after the file itself
    assert command("lake", "--out", "lake.onnx") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "lake.onnx' cannot be written: No space left on device. Nothing was kept." in said
    assert os.listdir() == ["file"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("nope", "--out", "x"), "There is no run 'nope'"),
        (("lake", "--out", "x", "--policy", "tabel"), "Did you mean 'table'"),
        (("hands", "--out", "x.onnx"), "has 2 policies: player_0, player_1. Name a folder with --out"),
        (("lake", "--out", "x", "--checkpoint", "bset"), "neither @best nor @latest nor a number of env steps"),
        (("lake", "--out", "x", "--checkpoint", "123456"), "no checkpoint"),
        (("lake", "--out", "x", "--opset", "99"), "opset 99 cannot be written"),
        (("lake", "--out", "x", "--tolerance", "0"), "'tolerance' cannot be 0.0: it should be more than 0.0"),
        (("lake", "--out", "x", "--target", "torchscript", "--opset", "17"), "belong to ONNX"),
        (("lake", "--out", "x", "--target", "tflite"), "tflite"),
        (("lake", "--out", "x", "--observations", "10"), "1000"),
        (("lake",), "--out"),
    ],
)
def test_refusals(words: tuple[str, ...], reason: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(*words) == 2
    assert reason in capsys.readouterr().err.replace("\n", " ")
    assert os.listdir() == []


def test_names_of_policies_stay_inside_the_folder() -> None:
    parity: Any = None
    names = ["../../evil", "a/b", ".hidden", "plain", ""]
    traced = [TracedPolicy(name, ("agent",), b"", parity) for name in names]
    assert export_module.file_names(traced) == [".._.._evil".lstrip("."), "a_b", "hidden", "plain", "policy"]
    twice = [TracedPolicy("shared", (agent,), b"", parity) for agent in ("red", "blue")]
    assert export_module.file_names(twice) == ["shared-red", "shared-blue"]


def test_rows_of_a_table_are_found_as_in_its_code() -> None:
    import torch
    from gymnasium import spaces

    from mosaic.envs.codes import space_code
    from mosaic.exports.torch_parts import TablePolicy

    space = spaces.Dict(a=spaces.Discrete(3, start=1), b=spaces.MultiDiscrete([2, 2]), c=spaces.Box(-1, 1, (2,)))
    code = space_code(space, 4)
    values = np.arange(code.size * 2, dtype=np.float32).reshape(code.size, 2)
    table = TablePolicy(code, values)
    space.seed(0)
    for _ in range(50):
        seen = space.sample()
        leaves = [torch.as_tensor(np.atleast_1d(seen[key])[None], dtype=torch.float32) for key in space.spaces]
        assert table(leaves, None, None)[0][0].tolist() == values[code.encode(seen)].tolist()
