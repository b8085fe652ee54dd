"""Hostile repositories of the hub: `mosaic pull` fetches nothing that a bundle does not have, and leaves nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from mosaic.ui.cli.main import main
from tests.exports.hostile.forged import ARTEFACT, CANARY, DEEP, as_json, bundle, zipped
from tests.exports.hub.hub_stub import HubState, HubStub

ENTRY = {"size": 1, "sha256": ""}
REPO = "stranger/policies"
Harm: TypeAlias = Callable[[HubState, dict[str, bytes]], object]  # to the hub and the repository


def manifest(change: Callable[[dict[str, Any]], object]) -> Harm:
    def harm(state: HubState, files: dict[str, bytes]) -> None:
        document = json.loads(files["manifest.json"])
        change(document)
        files["manifest.json"] = as_json(document)

    return harm


def listing(name: str, data: bytes = b"x", **claims: Any) -> Harm:
    """A repository with one more file, which its manifest lists."""

    def harm(state: HubState, files: dict[str, bytes]) -> None:
        entry = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), **claims}
        manifest(lambda document: document["files"].update({name: entry}))(state, files)
        files[name] = data

    return harm


def file(name: str, data: bytes) -> Harm:
    return lambda state, files: files.update({name: data})


def policy(**changes: Any) -> Harm:
    return manifest(lambda document: document["policies"]["learner"].update(changes))


NAMES = (
    *("../evil.md", "../../evil.md", "weights/../../evil.md", "/tmp/evil.md", "//tmp/evil.md", "./evil.md"),
    *("a//evil.md", "..", "../", "a/..", ".md", ".git/config.md", ".evil.md", "weights/.evil.json"),
    *("~/evil.md/", "..\\evil.md", "C:\\evil.md", "C:evil.md", "a\\b.md", "evil.md ", "evil.md."),
    *("evil .md/", "evil\n.md", "evil\u0000.md", " evil.md", "a/b/c/d/evil.md", "evil.pkl", "evil.pt"),
    *("evil.pth", "evil.bin", "evil.zip", "evil.npz", "evil.npy", "evil.py", "evil.so", "evil.sh"),
    *("evil.md.exe", "evil", "evil.yaml", "evil.html", "weights/evil.pickle"),
    "a" * 250 + ".md",
)  # fmt: skip
HARMS: dict[str, tuple[Harm, str]] = {
    **{f"name {name[:30]!r}": (listing(name), "does not belong in a bundle") for name in NAMES},
    "no manifest": (lambda state, files: files.pop("manifest.json"), "it has no manifest.json"),
    "manifest empty": (file("manifest.json", b""), "is not JSON"),
    "manifest deep": (file("manifest.json", DEEP), "is not JSON"),
    "manifest a pickle": (file("manifest.json", CANARY), "is not JSON"),
    "manifest a zip": (file("manifest.json", zipped({"a": CANARY})), "is not JSON"),
    "manifest a list": (file("manifest.json", b"[]"), "is not the manifest of a bundle"),
    "manifest of a checkpoint": (file("manifest.json", b'{"format": "mosaic.checkpoint"}'), "is not the manifest of"),
    "manifest of NaN": (manifest(lambda it: it.update(training={"env_steps": float("nan")})), "is damaged"),
    "giant manifest": (lambda state, _: state.announced.update({"manifest.json": 1 << 40}), "is larger than 16 MiB"),
    "version of the future": (manifest(lambda it: it.update(version=2)), "has version 2"),
    "no policies": (manifest(lambda it: it.update(policies={})), "is damaged"),
    "policies a list": (manifest(lambda it: it.update(policies=[])), "is damaged"),
    "giant size": (listing("big.onnx", size=1 << 60), "claims 1,152,921,504,606,846,976 bytes"),
    "negative size": (listing("big.onnx", size=-1), "claims -1 bytes"),
    "larger than a disk": (
        lambda state, files: [listing(f"{number}.onnx", size=1 << 32)(state, files) for number in range(3)],
        "a bundle has at most",
    ),
    "size too small": (listing("a.md", b"more than it says", size=2), "its size or hash differs"),
    "size too large": (listing("a.md", b"x", size=200), "was interrupted after 1 of 200 bytes"),
    "wrong hash": (listing("a.md", sha256="0" * 64), "its size or hash differs"),
    "hash a number": (listing("a.md", sha256=7), "is damaged"),
    "link for weights": (file("weights/facts.json", b"../../../etc/passwd"), "was interrupted after"),
    "weights replaced": (file("weights/policy_0.safetensors", CANARY), "interrupted after"),
    "many files": (manifest(lambda it: it["files"].update({f"{n}.md": ENTRY for n in range(501)})), "at most 500"),
    "names alike": (lambda state, files: [listing(n)(state, files) for n in ("a.md", "A.md")], "upper and lower case"),
    "missing file": (lambda state, files: files.pop("weights/facts.json"), "is not in the repository"),
    "a folder and a file": (
        lambda state, files: [listing(name)(state, files) for name in ("a.md", "a.md/b.md")],
        "as a file and as a folder",
    ),
    "weights outside": (policy(weights=["../../outside.safetensors"]), "is not in the list of files"),
    "graph outside": (policy(onnx=[{"file": "/etc/passwd", "agents": [], "parity": {}}]), "not in the list of files"),
    "replay outside": (manifest(lambda it: it.update(replay={"file": "../evil.mp4"})), "is not in the list of files"),
}


def repository(here: Path) -> dict[str, bytes]:
    """A whole bundle, as files of a repository."""
    bundle()(here)
    folder = (here / ARTEFACT).rename(here.parent / "sent")
    return {str(each.relative_to(folder)): each.read_bytes() for each in folder.rglob("*") if each.is_file()}


def everything(here: Path) -> list[Path]:
    return sorted(each for each in here.parent.rglob("*") if "hf" not in each.relative_to(here.parent).parts)


def pull(capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(["pull", REPO, "--out", "got"])
    assert isinstance(ended.value.code, int)
    return ended.value.code, " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("name", HARMS)
def test_it_is_refused_and_nothing_is_left(
    name: str, hub: HubStub, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    harm, reason = HARMS[name]
    files = repository(here)
    hub.state.repos[REPO] = files
    harm(hub.state, files)
    before = everything(here)
    code, said = pull(capsys)
    assert reason in said
    assert code == (1 if "interrupted" in reason else 2), said
    assert "Traceback" not in said
    assert everything(here) == before


def test_files_outside_the_manifest_are_not_fetched(
    hub: HubStub, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.state.repos[REPO] = repository(here) | dict.fromkeys(("../evil.md", "policy.pkl", "/tmp/evil.md"), CANARY)
    assert pull(capsys)[0] == 0
    assert not [each for each in hub.state.seen if "evil" in each or "pkl" in each]
    assert {each.name for each in (here / "got").iterdir()} == {"weights", "manifest.json"}


def test_another_server_does_not_get_the_token(hub: HubStub, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with HubStub() as other:
        other.state.repos[REPO] = hub.state.repos[REPO] = repository(here)
        hub.state.elsewhere = other.url
        assert pull(capsys)[0] == 0
        assert other.state.seen
        assert set(other.state.tokens) == {None}
        assert f"Bearer {hub.state.token}" in hub.state.tokens
