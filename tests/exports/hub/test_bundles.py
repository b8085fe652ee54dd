"""Tests of bundles: made from runs, played without code, and refused where a byte or a name is wrong."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.evaluation.evaluate import evaluate
from mosaic.exports.bundles import contents
from mosaic.exports.bundles.make import bundle
from mosaic.exports.bundles.trial import BundleSettings
from mosaic.store.bundles.bundle import Bundle, open_bundle
from mosaic.store.bundles.manifest import check_name
from mosaic.store.origin import GitState
from mosaic.ui.cli.main import main
from tests.in_process import trained_here

pytest.importorskip("huggingface_hub")
QUICK = BundleSettings(episodes=3, video=False, license="mit")
RPS = "classic/rps_v2"


CODE = GitState(commit="a" * 40, dirty=True)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a run of two tables."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mosaic.store.origin.git_state", lambda _: CODE)
        patch.setenv("MOSAIC_HOME", str(folder))
        training = {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 600}
        environment = {"family": "classic", "env_id": "rps_v2"}
        trained_here(
            folder,
            {
                "name": "hands",
                "environment": environment,
                "training": training,
                "policy_configuration": "independent",
            },
        )
        yield folder


@pytest.fixture(scope="module")
def hands(home: Path, tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_HOME", str(home))
        return bundle("hands", tmp_path_factory.mktemp("made") / "hands", settings=QUICK)


@pytest.fixture
def copy(hands: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the bundle, for another user: another store, without the run."""
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "other"))
    return Path(shutil.copytree(hands.path, tmp_path / "copy"))


def test_bundle_holds_all_policies_with_their_measurements(hands: Bundle) -> None:
    manifest = open_bundle(hands.path).manifest
    assert set(manifest.policies) == {"player_0", "player_1"}
    for policy in manifest.policies.values():
        assert policy.onnx[0].parity["passed"]
        assert policy.decoding[0].sizes == (3,)
    rows = [row for result in manifest.evaluation for row in result["agents"].values() if row["bundled"]]
    assert [row["policy"] for row in rows] == ["player_0", "player_1"]
    assert all(len(row["return_ci95"]) == 2 for row in rows)
    assert manifest.git == manifest.checkpoint().git == CODE
    assert {"python", "numba", "mosaic-rl"} <= set(manifest.versions)
    assert str(hands.path.parent) not in json.dumps(manifest.model_dump(mode="json"))


def test_card_is_what_the_hub_reads(hands: Bundle) -> None:
    from huggingface_hub import ModelCard

    card = ModelCard.load(hands.path / "README.md")
    assert card.data.license == "mit"
    assert "reinforcement-learning" in card.data.tags
    assert {result.dataset_type for result in card.data.eval_results} == {RPS}
    assert "mosaic pull" in card.text
    assert f"at commit {CODE.commit}, with uncommitted changes." in card.text


@pytest.mark.parametrize("engine", ["weights", "onnx"])
def test_others_play_a_bundle(copy: Path, engine: str) -> None:
    result = evaluate(RPS, {"*": f"bundle:{copy},engine={engine},sample=false"}, episodes=2)
    assert len(result.episode_results) == 2


def test_policy_without_onnx_keeps_the_reason(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise InputError("it is a hashed table")

    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.setattr(contents, "trace_policy", refuse)
    made = bundle("hands", tmp_path / "b", policies=["player_1"], settings=QUICK)
    assert made.manifest.policies["player_1"].onnx_refused == "it is a hashed table"
    with pytest.raises(InputError, match=r"has no ONNX file: it is a hashed table"):
        evaluate(RPS, {"*": f"bundle:{made.path},policy=player_1,engine=onnx"}, episodes=1)


def test_target_that_exists_is_kept(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years")
    with pytest.raises(InputError, match=r"exists\. Name another folder with --out"):
        bundle("hands", tmp_path / "mine", settings=QUICK)
    with pytest.raises(InputError, match=r"is not a bundle, and is not replaced"):
        bundle("hands", tmp_path / "mine", settings=QUICK, overwrite=True)
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]


def test_nothing_is_left_of_a_bundle_that_failed(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise InputError("no")

    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.setattr("mosaic.exports.bundles.make.measure", fail)
    with pytest.raises(InputError, match="no"):
        bundle("hands", tmp_path / "b", settings=QUICK)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_names_the_bundle_and_not_what_is_copied(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(source: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(source))

    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.setattr("shutil.copyfile", full)
    with pytest.raises(
        MosaicError, match=r"The bundle '.*/b' cannot be written: No space left on device\. Name another"
    ):
        bundle("hands", tmp_path / "b", settings=QUICK)
    assert list(tmp_path.iterdir()) == []


def _flip(folder: Path) -> None:
    file = next((folder / "weights").glob("*.safetensors"))
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def _link(folder: Path) -> None:
    (folder / "README.md").rename(folder.parent / "elsewhere")
    (folder / "README.md").symlink_to(folder.parent / "elsewhere")


def _edited(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    document = json.loads((folder / "manifest.json").read_text())
    change(document)
    (folder / "manifest.json").write_text(json.dumps(document))


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_flip, "has changed since it was written"),
        (_link, "is not a plain file"),
        (lambda folder: (folder / "README.md").unlink(), "is missing"),
        (lambda folder: (folder / "weights" / "evil.pkl").write_bytes(b"cos\n"), "does not belong to it"),
        (lambda folder: (folder / "manifest.json").write_text("{"), "is not JSON"),
        (lambda folder: _edited(folder, lambda m: m.update(version=9)), "has version 9"),
        (
            lambda folder: _edited(folder, lambda m: m["files"].update({"../x.md": m["files"]["README.md"]})),
            "not belong in a bundle",
        ),
        (lambda folder: _edited(folder, lambda m: m["files"].pop("README.md")), None),
    ],
)
def test_damaged_bundle_is_refused(copy: Path, harm: Callable[[Path], object], message: str | None) -> None:
    harm(copy)
    if message is None:  # a file that is not listed is not read
        open_bundle(copy)
        return
    with pytest.raises(FormatError, match=message):
        evaluate(RPS, {"*": f"bundle:{copy}"}, episodes=1)


@pytest.mark.parametrize(
    "name",
    ["../a.json", "/etc/a.json", "a/../b.json", "a\\b.json", ".git/a.json", "a.pkl", "a.zip", "C:a.json", "a/.json"],
)
def test_names_that_could_leave_the_folder_are_refused(name: str) -> None:
    with pytest.raises(FormatError, match="not belong in a bundle"):
        check_name(name, "The manifest")


def test_env_that_differs_is_explained(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", "gym/CartPole-v1", "--agent", f"*=bundle:{copy},policy=player_0"])
    assert ended.value.code == 2
    assert "its action is Discrete(2) here and Discrete(3) in training" in " ".join(capsys.readouterr().err.split())
