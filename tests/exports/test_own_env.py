"""Exports and bundles of runs whose env is a user's own code: one's own are made, a stranger's only with trust."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mosaic.core.errors import TrustError
from mosaic.evaluation.evaluate import evaluate
from mosaic.exports.bundles.make import bundle
from mosaic.exports.bundles.trial import BundleSettings
from mosaic.exports.export import export
from mosaic.runs.exporting import jobs
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.store import Store
from mosaic.ui.cli.main import main
from tests.in_process import attempt_here, trained_here

CODE = """
from pathlib import Path

import gymnasium

Path("canary").touch()


class Corridor(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(5)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        return self.place, float(self.place == 4), self.place == 4, False, {}
"""
ENV = "python:own_corridor:Corridor"
QUICK = BundleSettings(episodes=3)
CONFIG = {
    "name": "corridor",
    "environment": {"env_id": ENV},
    "training": {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 300},
}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A run in an env of the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    monkeypatch.setattr(jobs, "start_attempt", attempt_here)
    (tmp_path / "own_corridor.py").write_text(CODE)
    yield trained_here(tmp_path / "home", CONFIG).id
    sys.modules.pop("own_corridor", None)


def test_own_env(run: str) -> None:
    assert export(run, "corridor.onnx")[0].parity.passed
    (checkpoint,) = (Store().folder(run).path / "checkpoints").glob("[!.]*")
    checkpoint.rename("copied")  # its seal goes with it
    assert export("checkpoint:copied", "copied.onnx")[0].parity.passed
    Path("copied").rename(checkpoint)
    pytest.importorskip("huggingface_hub")
    made = bundle(run, "made", settings=QUICK)
    assert made.manifest.replay.file is None
    assert "has no pictures" in made.manifest.replay.reason
    card = (made.path / "README.md").read_text()
    assert f"mosaic evaluate {ENV} --agent" in card
    assert "The env is code of its author, `own_corridor`" in card
    assert len(evaluate(ENV, {"*": "bundle:made"}, episodes=2, seed=0).episode_results) == 2


def test_the_env_of_a_stranger(
    run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    archive_run(Store().folder(run), Path("sent.tar.gz"))
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "other"))
    import_run(Store(), Path("sent.tar.gz"))
    sys.modules.pop("own_corridor")
    Path("canary").unlink()
    for words in (["export", run, "--out", "x.onnx"], ["bundle", run, "--out", "x"]):
        with pytest.raises(SystemExit) as ended:
            main(words)
        said = " ".join(capsys.readouterr().err.split())
        assert ended.value.code == 2
        assert "it was imported" in said
        assert "--trust" in said
        assert ENV in said
    with pytest.raises(TrustError):
        export(run, "x.onnx")
    assert not Path("canary").exists()
    assert not Path("x").exists()
    monkeypatch.setenv("MOSAIC_TRUST", "1")
    assert export(run, "x.onnx")[0].parity.passed
