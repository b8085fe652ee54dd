"""Bundles on machines that differ from their maker's: without the worker, without its packages, without the env."""

from __future__ import annotations

import json
import logging
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from mosaic.core.errors import InputError, MissingExtraError, TrustError, UnknownNameError
from mosaic.evaluation.evaluate import evaluate
from mosaic.exports.bundles.make import bundle
from mosaic.exports.bundles.trial import BundleSettings
from mosaic.store.bundles.bundle import open_bundle
from mosaic.ui.cli.main import main
from mosaic.workers.tabular.worker import TabularWorker
from tests.in_process import trained_here

pytest.importorskip("huggingface_hub")
OWN = """
import gymnasium as gym

class Walk(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.at = 0
        return 0, {}

    def step(self, action):
        self.at = min(self.at + int(action), 3)
        return self.at, float(action), self.at == 3, False, {}
"""
ENV = "python:own_walk:Walk"


@pytest.fixture(scope="module")
def walk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of a table for an env of its maker's own, whose module is on no path here."""
    folder = tmp_path_factory.mktemp("maker")
    (folder / "own_walk.py").write_text(OWN)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_HOME", str(folder / "home"))
        patch.syspath_prepend(folder)
        training = {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 300}
        environment = {"family": "python", "env_id": "own_walk:Walk"}
        trained_here(folder / "home", {"name": "walk", "environment": environment, "training": training})
        return bundle("walk", folder / "bundle", settings=BundleSettings(episodes=2, video=False)).path


@pytest.fixture
def maker(walk: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The bundle where the env is known."""
    monkeypatch.syspath_prepend(walk.parent)
    return walk


def played(path: Path, options: str = "") -> list[float]:
    result = evaluate(ENV, {"*": f"bundle:{path}{options}"}, episodes=2)
    return [sum(episode.returns.values()) for episode in result.episode_results]


def _refusing(error: InputError) -> Any:
    def refuse(*_: object, **__: object) -> None:
        raise error

    return refuse


@pytest.mark.parametrize(
    "error",
    [
        UnknownNameError("There is no worker named 'tabular'."),
        MissingExtraError("It needs torch: pip install 'mosaic-rl[torch]'"),
        TrustError("Its weights name code: add --trust"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_the_onnx_file_is_played_where_the_weights_cannot_be(
    error: InputError, maker: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    by_weights = played(maker)
    assert not caplog.records
    monkeypatch.setattr(TabularWorker, "controller", _refusing(error))
    with caplog.at_level(logging.WARNING):
        assert played(maker) == by_weights == [3.0, 3.0]
    assert f"plays the ONNX file of 'table' instead of its weights: {error}" in caplog.text
    with pytest.raises(type(error), match=str(error).partition(":")[0]):
        played(maker, ",engine=weights")


def test_a_worker_that_is_not_installed_is_named(maker: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    copy = Path(shutil.copytree(maker, tmp_path / "copy"))
    document = json.loads((copy / "manifest.json").read_text())
    document["policies"]["table"]["worker"] = "acme"
    (copy / "manifest.json").write_text(json.dumps(document))
    assert played(copy) == [3.0, 3.0]
    assert "There is no worker named 'acme'" in caplog.text
    for key, value in (("onnx", []), ("onnx_refused", "too large")):
        document["policies"]["table"][key] = value
    (copy / "manifest.json").write_text(json.dumps(document))
    with pytest.raises(UnknownNameError, match="There is no worker named 'acme'"):
        played(copy)


def test_damaged_weights_are_not_replaced_by_the_onnx_file(maker: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TabularWorker, "controller", _refusing(InputError("other spaces")))
    with pytest.raises(InputError, match="other spaces"):
        played(maker)


def test_normalization_is_in_the_manifest(walk: Path) -> None:
    assert open_bundle(walk).manifest.policies["table"].preprocessing.normalized is False
    assert open_bundle(walk).checkpoint().manifest.policies["table"].normalized is False


def test_env_that_is_not_here_is_named(
    walk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(sys.modules, "own_walk", raising=False)
    with pytest.raises(SystemExit) as ended:
        main(["evaluate", ENV, "--agent", f"*=bundle:{walk}"])
    assert ended.value.code == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "'python:own_walk:Walk': there is no module 'own_walk'. Looked in" in said
