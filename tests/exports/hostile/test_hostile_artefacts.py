"""Hostile and damaged artefacts, in every format that is read: exit code 2, a clear message, nothing run or written.

Those of ONNX, of Stable-Baselines3 and of VecNormalize have tables of their own, beside their readers.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from mosaic.runs.exporting import jobs
from mosaic.ui.cli.main import main
from tests.exports.hostile.checkpoints import CHECKPOINTS, WEIGHTS, WORKERS
from tests.exports.hostile.forged import ARTEFACT, LAKE, POLE, Forge, bundle, native, network
from tests.exports.hostile.shared import ARCHIVES, BUNDLES, FOREIGN, PROJECTS
from tests.in_process import attempt_here

CASES: dict[str, dict[str, tuple[Forge, str]]] = {
    "weights": WEIGHTS,
    "checkpoint": CHECKPOINTS,
    "worker": WORKERS,
    "bundle": BUNDLES,
    "archive": ARCHIVES,
    "project": PROJECTS,
    "foreign": FOREIGN,
}

EXPORTED = ("weights", "checkpoint", "worker", "foreign")  # they are checkpoints
EXPORT_SAYS = {"no policies": "holds no policy"}


def command(kind: str, env: str) -> list[str]:
    match kind:
        case "archive":
            return ["runs", "import", ARTEFACT]
        case "project":
            return ["projects", "open", ARTEFACT]
        case "bundle":
            return ["evaluate", env, "--agent", f"*=bundle:{ARTEFACT}", "--episodes", "1"]
    return ["evaluate", env, "--agent", f"*=checkpoint:{ARTEFACT}", "--episodes", "1"]


def run(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert isinstance(ended.value.code, int)
    return ended.value.code, " ".join(capsys.readouterr().err.split())


def everything(folder: Path) -> list[str]:
    return sorted(str(each) for each in folder.parent.rglob("*") if "home" not in each.relative_to(folder.parent).parts)


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, cases in CASES.items() for name in cases])
def test_it_is_refused_with_the_reason(kind: str, name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge, reason = CASES[kind][name]
    forge(here)
    before = everything(here)
    code, said = run(command(kind, LAKE if name.startswith("table") else POLE), capsys)
    assert reason in said
    assert code == 2, said
    assert "Traceback" not in said
    assert everything(here) == before
    assert not list((here.parent / "home" / "runs").glob("[!.]*"))


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind in EXPORTED for name in CASES[kind]])
def test_it_is_not_exported(
    kind: str, name: str, here: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "start_attempt", attempt_here)
    forge, reason = CASES[kind][name]
    forge(here)
    before = everything(here)
    env = ["--env", POLE] if kind == "foreign" else []
    code, said = run(["export", f"checkpoint:{ARTEFACT}", *env, "--out", "exported.onnx"], capsys)
    assert EXPORT_SAYS.get(name, reason) in said
    assert code == 2, said
    assert "Traceback" not in said
    assert everything(here) == before


@pytest.mark.parametrize("forge", [native(network()), bundle()])
def test_whole_ones_play(forge: Forge, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    forge(here)
    kind = "bundle" if "mosaic.bundle" in (here / ARTEFACT / "manifest.json").read_text() else "checkpoint"
    assert run(command(kind, POLE), capsys)[0] == 0
