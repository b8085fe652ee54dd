"""Tests of `mosaic push` and `mosaic pull` against a stub of the hub."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from mosaic.core.errors import FormatError, InputError
from mosaic.exports.hub.client import HubError, check_repo
from mosaic.exports.hub.pull import pull
from mosaic.exports.hub.push import push
from mosaic.store.bundles.bundle import open_bundle
from mosaic.ui.cli.main import main
from tests.exports.hub.hub_stub import HubStub

pytest.importorskip("huggingface_hub")
REPO = "me/tictactoe"


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A bundle with one table, written by hand."""
    return write_bundle(tmp_path / "bundle", {"weights/a.safetensors": b"weights" * 100, "README.md": b"# A card\n"})


def write_bundle(folder: Path, files: dict[str, bytes], **also: Any) -> Path:
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    listed = {name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    manifest = {
        "format": "mosaic.bundle",
        "version": 1,
        "run": "r1",
        "name": "first",
        "environment": {"family": "classic", "env_id": "tictactoe_v3"},
        "spaces": {},
        "policies": {"a": {"worker": "tabular", "weights": ["a.safetensors"]}},
        "training": {"env_steps": 1},
        "versions": {},
        "files": listed,
        **also,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning")  # huggingface_hub's own upload
@pytest.mark.parametrize("lfs", [False, True])
def test_what_is_pushed_is_pulled(
    hub: HubStub, bundle: Path, tmp_path: Path, lfs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("huggingface_hub._commit_api.is_xet_available", lambda: False)  # a storage of its own
    hub.state.lfs = lfs
    done = push(bundle, REPO, private=True)
    assert done.files == 3
    assert REPO in hub.state.private
    hub.state.repos[REPO]["setup.py"] = b"import os"
    got = pull(REPO, tmp_path / "got")
    assert got.left_out == 2
    assert {each.name for each in (tmp_path / "got").rglob("*") if each.is_file()} == {
        "README.md", "a.safetensors", "manifest.json"
    }  # fmt: skip
    assert open_bundle(tmp_path / "got").manifest == open_bundle(bundle).manifest
    assert not any("setup.py" in each for each in hub.state.seen)


def test_repository_that_holds_files_is_kept(hub: HubStub, bundle: Path, tmp_path: Path) -> None:
    hub.state.repos[REPO] = {"thesis.pdf": b"years"}
    with pytest.raises(InputError, match=r"exists and holds 1 files.*--force"):
        push(bundle, REPO)
    push(bundle, REPO, overwrite=True)
    second = write_bundle(
        tmp_path / "second",
        {"weights/b.safetensors": b"other"},
        policies={"b": {"worker": "tabular", "weights": ["b.safetensors"]}},
    )
    push(second, REPO, overwrite=True)
    assert set(hub.state.repos[REPO]) == {"thesis.pdf", "weights/b.safetensors", "manifest.json"}


@pytest.mark.parametrize("token", ["", "hf_wrong_secret"])
def test_token_is_asked_for_and_never_shown(
    hub: HubStub, bundle: Path, token: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    assert run("push", str(bundle), REPO) == 2
    said = capsys.readouterr()
    assert "HF_TOKEN" in said.err
    assert "hf_wrong_secret" not in said.err + said.out


def test_missing_repository_is_named(hub: HubStub, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pull", "me/nothing") == 2
    assert "There is no repository 'me/nothing'" in capsys.readouterr().err


def test_repository_of_something_else_is_refused(hub: HubStub, tmp_path: Path) -> None:
    hub.state.repos[REPO] = {"pytorch_model.bin": b"pickle"}
    with pytest.raises(FormatError, match="is not a bundle of Mosaic"):
        pull(REPO, tmp_path / "got")
    assert not (tmp_path / "got").exists()


@pytest.mark.parametrize(
    ("file", "advice"),
    [
        (
            "ppo-CartPole-v1.zip",
            "hf download me/tictactoe ppo-CartPole-v1.zip --local-dir FOLDER, then play it as sb3:",
        ),
        ("best model.onnx", "hf download me/tictactoe 'best model.onnx' --local-dir FOLDER, then play it as onnx:"),
        ("model.bin", "Bundles are made by: mosaic push RUN OWNER/NAME"),
    ],
)
def test_policies_of_other_programs_are_explained(
    hub: HubStub, file: str, advice: str, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.state.repos[REPO] = {file: b"pickle", "replay.mp4": b"", "config.json": b"{}"}
    assert run("pull", REPO, "--out", "nowhere") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "it has no manifest.json" in said
    assert advice in said
    assert not [each for each in hub.state.seen if "resolve" in each]


def test_the_same_bundle_again(hub: HubStub, bundle: Path) -> None:
    first = push(bundle, REPO)
    assert push(bundle, REPO, overwrite=True).commit == first.commit
    (bundle / "README.md").write_bytes(b"# Another card\n")
    with pytest.raises(FormatError, match=r"has 15 bytes instead of 9"):
        push(bundle, REPO, overwrite=True)  # not what its manifest says


def test_a_hub_that_is_switched_off(
    hub: HubStub, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert run("pull", REPO, "--out", "nowhere") == 2
    assert "Type: unset HF_HUB_OFFLINE" in " ".join(capsys.readouterr().err.split())
    assert hub.state.seen == []


def test_private_repositories_need_the_token(
    hub: HubStub, bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    push(bundle, REPO, private=True)
    monkeypatch.setenv("HF_TOKEN", "hf_wrong_secret")
    assert run("pull", REPO, "--out", str(tmp_path / "got")) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "or it is private and your token may not read it" in said
    assert "hf_wrong_secret" not in said
    monkeypatch.setenv("HF_TOKEN", hub.state.token)
    assert run("pull", REPO, "--out", str(tmp_path / "got")) == 0


def test_interrupted_download_leaves_nothing(hub: HubStub, bundle: Path, tmp_path: Path) -> None:
    push(bundle, REPO)
    hub.state.cut = "weights/a.safetensors"
    with pytest.raises(HubError, match="Try again"):
        pull(REPO, tmp_path / "new" / "got")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize("data", [b"WEIGHTS" * 100, b"weights" * 101])
def test_other_bytes_than_the_manifest_says_are_refused(
    hub: HubStub, bundle: Path, tmp_path: Path, data: bytes
) -> None:
    push(bundle, REPO)
    hub.state.repos[REPO]["weights/a.safetensors"] = data
    with pytest.raises(FormatError, match="size or hash differs"):
        pull(REPO, tmp_path / "new" / "got")
    assert list((tmp_path / "new").iterdir()) == []


@pytest.mark.parametrize(
    ("name", "entry"), [("../../evil.md", {"size": 1, "sha256": ""}), ("big.onnx", {"size": 1 << 40, "sha256": ""})]
)
def test_hostile_manifest_is_refused(
    hub: HubStub, bundle: Path, tmp_path: Path, name: str, entry: dict[str, Any]
) -> None:
    push(bundle, REPO)
    document = json.loads(hub.state.repos[REPO]["manifest.json"])
    document["files"][name] = entry
    hub.state.repos[REPO] |= {"manifest.json": json.dumps(document).encode(), name: b"x"}
    with pytest.raises(FormatError, match=r"not belong in a bundle|claims 1,099"):
        pull(REPO, tmp_path / "got")
    assert not (tmp_path / "evil.md").exists()


@pytest.mark.parametrize(("status", "code"), [(403, 2), (429, 1), (503, 1)])
def test_failures_of_the_hub_have_exit_codes(
    hub: HubStub, status: int, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.state.status = status
    assert run("pull", REPO) == code
    assert "Traceback" not in capsys.readouterr().err


def test_hub_that_is_not_there(hub: HubStub, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubError, match=r"connection to http://127\.0\.0\.1:9 failed"):
        pull(REPO, tmp_path / "got")


@pytest.mark.parametrize("repo", ["tictactoe", "a/b/c", "../x", "me/--x", "me/a b"])
def test_names_of_repositories(repo: str) -> None:
    with pytest.raises(InputError, match="Type OWNER/NAME"):
        check_repo(repo)


def test_folder_that_exists_is_kept(hub: HubStub, bundle: Path) -> None:
    with pytest.raises(InputError, match=r"exists\. Name another folder"):
        pull(REPO, bundle)
