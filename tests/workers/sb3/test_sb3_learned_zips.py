"""Zips of models that have learned: SB3's off-policy algorithms keep more in them than before."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import DQN, PPO, SAC
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from mosaic import evaluate, load_policy
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.exports.foreign import checkpoint_at
from mosaic.runs.trainer import Trainer
from mosaic.workers.sb3.checkpoint.zip_policy import zip_note
from tests.in_process import trained_here
from tests.workers.hosting import run_config
from tests.workers.sb3.models import CHOICE, FORCE, VECTOR, Spaces

UNSAID = "does not say whether it was trained with VecNormalize"
POLE, PENDULUM = "gym/CartPole-v1", "gym/Pendulum-v1"


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learned")
    small: dict[str, Any] = {"learning_starts": 20, "buffer_size": 100, "device": "cpu", "seed": 1}
    small["policy_kwargs"] = {"net_arch": [8]}
    DQN("MlpPolicy", "CartPole-v1", **small).learn(60).save(folder / "dqn.zip")
    SAC("MlpPolicy", "Pendulum-v1", **small).learn(60).save(folder / "sac.zip")
    return folder


@pytest.mark.parametrize(("name", "env", "kind"), [("dqn", POLE, DQN), ("sac", PENDULUM, SAC)])
def test_they_play_as_in_sb3_with_a_note(learned: Path, name: str, env: str, kind: Any) -> None:
    path = learned / f"{name}.zip"
    model = kind.load(path)
    made = make_env(env)
    turn = made.reset(3)
    with load_policy(f"sb3:{path}", env) as policy:
        wanted, _ = model.predict(turn.observations["agent_0"], deterministic=True)
        np.testing.assert_allclose(policy.predict(turn.observations["agent_0"]), wanted, rtol=1e-4)
    for reference in (f"sb3:{path}", f"checkpoint:{path}"):
        result = evaluate(env, {"*": reference}, episodes=1, max_steps=20)
        assert [note for note in result.notes if UNSAID in note]


@pytest.mark.parametrize(("name", "env"), [("dqn", POLE), ("sac", PENDULUM)])
def test_they_are_converted_for_an_export_and_begin_a_run(learned: Path, name: str, env: str, tmp_path: Path) -> None:
    with checkpoint_at(f"checkpoint:{learned / name}.zip", env) as checkpoint:
        assert checkpoint.manifest.policies["policy"].normalized is False
    training = {"algorithm": name, "init": f"sb3:{learned / name}.zip", "total_timesteps": 40, "preset": False}
    params = {"learning_starts": 20, "buffer_size": 100, "net_arch": [8]}
    run = trained_here(
        tmp_path, run_config("sb3", params, training=training, environment={"env_id": env}, evaluation={"episodes": 1})
    )
    assert run.state == "finished", run.reason
    assert UNSAID in run.log()


def test_statistics_beside_them_are_used_without_a_note(tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([lambda: Spaces(VECTOR, FORCE)]))
    model = SAC("MlpPolicy", env, learning_starts=5, buffer_size=50, device="cpu", policy_kwargs={"net_arch": [8]})
    model.learn(20).save(tmp_path / "sac.zip")
    env.save(str(tmp_path / "vecnormalize.pkl"))
    assert zip_note(tmp_path / "sac.zip") is None
    with load_policy(f"sb3:{tmp_path / 'sac.zip'}", Spaces(VECTOR, FORCE)) as policy:
        shown = VECTOR.sample()
        wanted, _ = model.predict(env.normalize_obs(shown), deterministic=True)
        np.testing.assert_allclose(policy.predict(shown), wanted, atol=1e-4)


def test_an_on_policy_zip_without_its_statistics_is_refused(tmp_path: Path) -> None:
    env = VecNormalize(DummyVecEnv([lambda: Spaces(VECTOR, CHOICE)]))
    PPO("MlpPolicy", env, n_steps=8, batch_size=8, device="cpu").learn(8).save(tmp_path / "ppo.zip")
    with pytest.raises(InputError, match="was trained with VecNormalize"):
        load_policy(f"sb3:{tmp_path / 'ppo.zip'}", Spaces(VECTOR, CHOICE))


PROGRAM = """
from stable_baselines3 import DQN
from mosaic import MosaicCallback
model = DQN("MlpPolicy", "CartPole-v1", learning_starts=20, buffer_size=100, device="cpu")
model.learn(120, callback=MosaicCallback(checkpoint_every=50))
"""


@pytest.mark.slow
def test_the_dqn_of_a_script_plays_as_its_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_here: None) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    run = Trainer().submit(run_config("script", {"command": [sys.executable, "-c", PROGRAM]}))
    assert run.wait(120) == "finished", run.log()
    assert evaluate(POLE, {"*": f"run:{run.id}"}, episodes=1).agents["agent_0"].returns.mean >= 8
