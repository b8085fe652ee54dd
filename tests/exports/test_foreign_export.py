"""Checkpoints of other programs become files: the same comparison, the same refusals."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mosaic import load_policy
from mosaic.config.export import ExportRequest
from mosaic.core.errors import InputError
from mosaic.exports.progress import ignore_progress
from mosaic.runs.exporting import jobs
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.exporting.work import carry_out, check_ahead, env_of
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.state import State
from mosaic.store.store import Store
from mosaic.ui.cli.main import main
from tests.in_process import attempt_here


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(jobs, "start_attempt", attempt_here)  # in this process
    return tmp_path / "here"


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as rl-baselines3-zoo leaves it, with statistics of VecNormalize."""
    from stable_baselines3 import PPO
    from stable_baselines3.common.env_util import make_vec_env
    from stable_baselines3.common.vec_env import VecNormalize

    folder = tmp_path_factory.mktemp("logs") / "ppo"
    env = VecNormalize(make_vec_env("CartPole-v1", 1, seed=0), clip_obs=2.0)
    model = PPO("MlpPolicy", env, n_steps=32, batch_size=32, n_epochs=1, seed=0, device="cpu").learn(64)
    for number in (9, 10):
        (folder / f"CartPole-v1_{number}").mkdir(parents=True)
        model.save(folder / f"CartPole-v1_{number}" / "CartPole-v1.zip")
    (folder / "CartPole-v1_10" / "CartPole-v1").mkdir()
    env.save(str(folder / "CartPole-v1_10" / "CartPole-v1" / "vecnormalize.pkl"))
    return folder


def command(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", *words])
    code: Any = ended.value.code
    return int(code)


def test_the_newest_experiment_is_exported_with_its_statistics(
    here: Path, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(f"checkpoint:{experiment}", "--env", "gym/CartPole-v1", "--out", "pole.onnx", "--json") == 0
    (file,) = json.loads(capsys.readouterr().out)["files"]
    assert (file["policy"], file["agents"], file["action_agreement"]) == ("policy", ["agent_0"], 1.0)
    zipped = experiment / "CartPole-v1_10" / "CartPole-v1.zip"
    random = np.random.default_rng(0)
    with (
        load_policy("onnx:pole.onnx", "gym/CartPole-v1") as exported,
        load_policy(f"sb3:{zipped}", "gym/CartPole-v1") as played,
    ):
        for shown in random.normal(0, 1, (50, 4)).astype(np.float32):
            assert exported.predict(shown) == played.predict(shown)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "does not name its env"),
        (("--env", "gym/MountainCar-v0"), "whose spaces differ"),
        (("--env", "gym/CartPole-v1", "--algo", "sac"), "holds no sac policy"),
        (("--env", "gym/CartPole-v1", "--algo", "pppo"), "Did you mean 'ppo'"),
        (("--env", "gym/CartPole-v1", "--policy", "red"), "There is no policy"),
        (("--env", "gym/CartPole-v1", "--checkpoint", "best"), "names one checkpoint: leave --checkpoint out"),
        (("--detach",), "does not name its env"),
        (("--env", "gym/CartPole-v1", "--detach", "--checkpoint", "best"), "names one checkpoint"),
    ],
)
def test_refusals(
    words: tuple[str, ...], reason: str, here: Path, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = experiment / "CartPole-v1_10" / "CartPole-v1.zip"
    assert command(f"checkpoint:{path}", "--out", "x.onnx", *words) == 2
    assert reason in " ".join(capsys.readouterr().err.split())
    assert os.listdir() == []


def test_an_export_in_the_background_is_in_the_history(
    here: Path, experiment: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    os.symlink(experiment, "logs")
    words = ("--env", "gym/CartPole-v1", "--algo", "ppo", "--out", "pole.onnx", "--detach", "--json")
    assert command("checkpoint:logs", *words) == 0
    export_id = json.loads(capsys.readouterr().out)["export_id"]
    *_, row = ExportJobs().follow(export_id)
    assert (row.state, row.reason) == (State.FINISHED, "")
    assert row.request.run == f"checkpoint:{here / 'logs'},algo=ppo"
    assert (here / "pole.onnx").is_file()
    with pytest.raises(SystemExit):
        main(["exports", "show", export_id])
    assert f"checkpoint:{here / 'logs'},algo=ppo, target onnx" in capsys.readouterr().out


def test_a_job_of_a_checkpoint_of_mosaic(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    store = Store()
    saved = find_checkpoint(store.resolve("lake"), "latest").path
    checked = check_ahead(ExportRequest(run=f"checkpoint:{saved}", out="lake.onnx"), store)
    assert (checked.run, checked.out) == (f"checkpoint:{saved}", str(tmp_path / "lake.onnx"))
    assert env_of(checked, store) == store.resolve("lake").read_config().environment.id
    result = carry_out(checked, store.resolve("lake"), ignore_progress)
    assert [each.passed for each in result.compared] == [True]
    for wrong, reason in (({"environment": "gym/CartPole-v1"}, "names its env"), ({"policies": ("red",)}, "policy")):
        with pytest.raises(InputError, match=reason):
            check_ahead(checked.model_copy(update={"overwrite": True, **wrong}), store)
    with pytest.raises(InputError, match="'environment' belongs to checkpoint:PATH"):
        check_ahead(ExportRequest(run="lake", environment="gym/CartPole-v1"), store)


OWN = """
import gymnasium, numpy

class Slope(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (3,), numpy.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.step_number = 0
        return self.np_random.uniform(-1, 1, 3).astype(numpy.float32), {}

    def step(self, action):
        self.step_number += 1
        return self.np_random.uniform(-1, 1, 3).astype(numpy.float32), 1.0, False, self.step_number == 5, {}
"""


def test_the_env_that_the_user_typed_needs_no_trust(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stable_baselines3 import PPO

    (here / "own_slope.py").write_text(OWN)
    monkeypatch.syspath_prepend(str(here))
    import own_slope

    model = PPO("MlpPolicy", own_slope.Slope(), n_steps=8, batch_size=8, device="cpu")
    model.save(here / "slope.zip")
    assert command("checkpoint:slope.zip", "--env", "python:own_slope:Slope", "--out", "slope.onnx") == 0
    assert (here / "slope.onnx").is_file()
