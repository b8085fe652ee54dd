"""Policies that a program saved draw actions where asked to; those that saw normalised observations are refused."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.architecture import Architecture
from mosaic.models.layout import count_weights, tensors
from mosaic.models.weights_file import save_weights
from mosaic.policies.controller import PolicyRequest, Sampling
from mosaic.policies.registry import load_policy
from mosaic.runs.trainer import Trainer
from mosaic.workers.script.policies import load_saved_policy
from tests.workers.hosting import run_config
from tests.workers.script.test_policies import lean_onnx

AGENT = "agent_0"
DRAWS = 200


def drawn(path: Path, sampling: Sampling | None, env_id: str = "gym/CartPole-v1") -> Counter[str]:
    """Actions on the first observation, with one seed each."""
    env = make_env(env_id)
    turn = env.reset(seed=0)
    player = load_saved_policy(path, PolicyRequest("run:x", env.spec, (AGENT,), sampling=sampling))
    found: Counter[str] = Counter()
    for seed in range(DRAWS):
        player.begin((AGENT,), seed)
        found[str(player.act(turn)[AGENT])] += 1
    return found


def onnx(folder: Path) -> Path:
    (folder / "policy.onnx").write_bytes(lean_onnx())
    return folder / "policy.onnx"


def safetensors(folder: Path) -> Path:
    net = Architecture(observation=4, head=ActionHead("categorical", (2,)), hidden=(), critic_hidden=())
    flat = np.zeros(count_weights(net), np.float32)
    next(t for t in tensors(net) if t.name == "policy.0.weight").of(flat)[:] = [[0, 0], [0, 0], [-1, 1], [-1, 1]]
    save_weights(folder / "policy.safetensors", net, flat)
    return folder / "policy.safetensors"


def sb3(folder: Path, algorithm: str = "PPO", env_id: str = "CartPole-v1", **options: Any) -> Path:
    import stable_baselines3

    model = getattr(stable_baselines3, algorithm)("MlpPolicy", gym.make(env_id), seed=3, device="cpu", **options)
    model.save(folder / "model.zip")
    return folder / "model.zip"


@pytest.mark.parametrize("make", [onnx, safetensors, sb3])
def test_forms_with_logits_draw_and_obey_the_temperature(tmp_path: Path, make: Any) -> None:
    path = make(tmp_path)
    assert len(drawn(path, None)) == 1
    even = drawn(path, Sampling())
    assert min(even.values()) > DRAWS // 4  # the logits of the first observation are nearly equal
    assert drawn(path, Sampling(temperature=1e-6)) == drawn(path, None)
    assert len(drawn(path, Sampling(temperature=1e6))) == 2
    assert drawn(path, Sampling()) == even


def test_a_dqn_of_stable_baselines3_explores_as_it_did(tmp_path: Path) -> None:
    path = sb3(tmp_path, "DQN")
    assert min(drawn(path, Sampling()).values()) > DRAWS // 4  # an untrained one explores all the time
    assert drawn(path, Sampling(temperature=1e-6)) == drawn(path, None)


def test_numbers_of_stable_baselines3_are_drawn(tmp_path: Path) -> None:
    plain = sb3(tmp_path, env_id="Pendulum-v1")
    assert len(drawn(plain, Sampling(), "gym/Pendulum-v1")) > DRAWS // 2
    noisy = sb3(tmp_path, env_id="Pendulum-v1", use_sde=True)
    assert len(drawn(noisy, None, "gym/Pendulum-v1")) == 1
    assert len(drawn(noisy, Sampling(), "gym/Pendulum-v1")) > DRAWS // 2  # noise that depends on the state


def test_an_onnx_policy_of_numbers_has_no_probabilities(tmp_path: Path) -> None:
    from onnx import TensorProto, helper, numpy_helper

    graph = helper.make_graph(
        [helper.make_node("MatMul", ["obs", "weights"], ["action"])],
        "push",
        [helper.make_tensor_value_info("obs", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(np.ones((3, 1), np.float32), "weights")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    (tmp_path / "policy.onnx").write_bytes(model.SerializeToString())
    assert len(drawn(tmp_path / "policy.onnx", None, "gym/Pendulum-v1")) == 1
    with pytest.raises(InputError, match=r"gives the action of agent_0 itself, and no probabilities"):
        drawn(tmp_path / "policy.onnx", Sampling(), "gym/Pendulum-v1")


def normalised(folder: Path, **options: Any) -> tuple[Any, Any]:
    from stable_baselines3 import PPO
    from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

    env = VecNormalize(DummyVecEnv([lambda: gym.make("CartPole-v1")]), **options)
    return PPO("MlpPolicy", env, n_steps=8, batch_size=8, n_epochs=1, device="cpu").learn(8), env


def test_a_model_that_saw_normalised_observations_needs_their_statistics(tmp_path: Path) -> None:
    model, env = normalised(tmp_path)
    model.save(tmp_path / "model.zip")
    with pytest.raises(
        InputError, match=r"model\.zip' was trained with VecNormalize .* beside it as vecnormalize\.pkl"
    ):
        drawn(tmp_path / "model.zip", None)
    env.save(tmp_path / "vecnormalize.pkl")
    assert len(drawn(tmp_path / "model.zip", None)) == 1


def test_a_model_whose_rewards_alone_were_normalised_plays(tmp_path: Path) -> None:
    model, _ = normalised(tmp_path, norm_obs=False)
    model._last_original_obs = None
    model.save(tmp_path / "model.zip")
    assert len(drawn(tmp_path / "model.zip", None)) == 1


@pytest.mark.parametrize("name", ["vecnormalize.pkl", "vec_normalize.pkl", "rl_model_vecnormalize_800_steps.pkl"])
def test_statistics_beside_a_zip_are_seen_and_not_loaded(tmp_path: Path, name: str) -> None:
    path = sb3(tmp_path)
    (tmp_path / name).write_bytes(b"not even a pickle")
    with pytest.raises(InputError, match=rf"{name}' holds the statistics of VecNormalize, and cannot be read without"):
        drawn(path, None)


PROGRAM = """
import json, os, shutil, sys
folder = os.environ["MOSAIC_CHECKPOINT_DIR"]
shutil.copy(sys.argv[1], folder + "/model.zip")
if len(sys.argv) > 2:
    open(folder + "/vecnormalize.pkl", "w").close()
for steps in (1, 2):
    print("@METRIC", json.dumps({"env_steps": steps}))
    print("@CHECKPOINT", json.dumps({"env_steps": steps, "policy": "model.zip", "stochastic": True}))
"""


def test_run_references_of_a_script_run_draw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, runs_here: None) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    path = sb3(tmp_path)
    run = Trainer().submit(run_config("script", {"command": [sys.executable, "-c", PROGRAM, str(path)]}))
    assert run.wait(120) == "finished", run.log()
    assert run.checkpoints()[-1].manifest.policies["policy"].stochastic
    env = make_env("gym/CartPole-v1")
    turn = env.reset(seed=0)
    player = load_policy(f"run:{run.id},temperature=1e6", env.spec)
    seen = set()
    for seed in range(64):
        player.begin((AGENT,), seed)
        seen.add(player.act(turn)[AGENT])
    assert seen == {0, 1}


def test_unannounced_statistics_are_told_when_the_program_saves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    command = [sys.executable, "-c", PROGRAM, str(sb3(tmp_path)), "normalised"]
    run = Trainer().submit(run_config("script", {"command": command}))
    assert run.wait(120) == "finished", run.log()
    (alert,) = [event["message"] for event in run.events() if event["kind"] == "alert"]
    assert "'model.zip' was saved beside statistics of VecNormalize, and run: refuses it" in alert
    with pytest.raises(InputError, match=r"vecnormalize\.pkl' holds the statistics of VecNormalize"):
        load_policy(f"run:{run.id}", make_env("gym/CartPole-v1").spec)
    assert json.loads((run.checkpoints()[-1].path / "manifest.json").read_text())["policies"]
