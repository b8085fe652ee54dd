"""SB3 through Mosaic and the same SB3 calls by hand: the same weights after the same steps."""

from pathlib import Path
from typing import Any

import pytest
import torch
from stable_baselines3.common.env_util import make_vec_env

from mosaic.workers.sb3.config.algorithms import ALGORITHMS
from mosaic.workers.sb3.config.build import constructor_arguments
from mosaic.workers.sb3.config.options import options_of
from tests.in_process import trained_here

REPLAY = {"learning_starts": 50, "buffer_size": 500}
CASES: dict[str, tuple[str, int, int, dict[str, Any]]] = {  # env, envs, steps, options
    "ppo": ("CartPole-v1", 2, 300, {"n_steps": 64, "batch_size": 32, "n_epochs": 2, "learning_rate": "linear"}),
    "a2c": ("Pendulum-v1", 2, 200, {"use_sde": True, "sde_sample_freq": 4}),
    "dqn": ("CartPole-v1", 1, 250, {**REPLAY, "target_update_interval": 40}),
    "sac": ("Pendulum-v1", 1, 90, {**REPLAY, "use_sde": True, "net_arch": [16]}),
    "td3": ("Pendulum-v1", 2, 90, {**REPLAY, "action_noise": "ornstein-uhlenbeck_0.1", "net_arch": [16]}),
    "maskable_ppo": ("CartPole-v1", 2, 200, {"n_steps": 64, "n_epochs": 2}),
    "recurrent_ppo": ("CartPole-v1", 2, 100, {"n_steps": 32, "n_epochs": 2, "lstm_hidden_size": 8}),
    "qrdqn": ("CartPole-v1", 1, 150, REPLAY),
    "tqc": ("Pendulum-v1", 1, 90, {**REPLAY, "net_arch": [16], "n_steps": 3}),
    "crossq": ("Pendulum-v1", 1, 90, {**REPLAY, "net_arch": {"pi": [8], "qf": [16]}}),
}
QUICK = ("ppo", "dqn")


@pytest.mark.filterwarnings("ignore:.n_steps=3. is ignored")  # SB3's load says so of what its save wrote
@pytest.mark.parametrize(
    "algorithm", [pytest.param(each, marks=() if each in QUICK else pytest.mark.slow) for each in CASES]
)
def test_the_weights_are_those_of_learn(tmp_path: Path, algorithm: str) -> None:
    env_id, envs, steps, params = CASES[algorithm]
    training = {"worker": "sb3", "algorithm": algorithm, "params": params, "total_timesteps": steps, "preset": False}
    environment = {"env_id": f"gym/{env_id}", "num_envs": envs}
    evaluation = {"every_steps": steps // 2, "episodes": 1}  # changes nothing
    run = trained_here(
        tmp_path, {"seed": 3, "environment": environment, "training": training, "evaluation": evaluation}
    )
    assert run.state == "finished", run.folder.errors.read_text()
    kind = ALGORITHMS[algorithm].load()
    ours = kind.load(next(run.checkpoints()[-1].path.glob("*.zip")))

    env = make_vec_env(env_id, n_envs=envs, seed=3)
    arguments = constructor_arguments(algorithm, options_of(algorithm).model_validate(params), env.action_space)
    network = "MlpLstmPolicy" if algorithm == "recurrent_ppo" else "MlpPolicy"
    by_hand = kind(network, env, seed=3, device="cpu", **arguments)
    by_hand.learn(steps, **({"use_masking": False} if algorithm == "maskable_ppo" else {}))
    assert ours.num_timesteps == by_hand.num_timesteps
    weights = by_hand.policy.state_dict()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in ours.policy.state_dict().items())
    returns = [episode["r"] for episode in by_hand.ep_info_buffer or ()]
    last = [event for event in run.events() if event["kind"] == "iteration"][-1]
    assert last["episode_reward_mean"] == (pytest.approx(sum(returns) / len(returns), abs=1e-5) if returns else None)
