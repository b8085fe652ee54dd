"""Small models of every algorithm, with untrained weights that were made large enough to tell actions apart."""

from __future__ import annotations

import warnings
from functools import cache
from typing import Any

import gymnasium as gym
import numpy as np
import sb3_contrib
import stable_baselines3
import torch
from gymnasium import spaces
from gymnasium.spaces import Space

VECTOR = spaces.Box(-1.0, 1.0, (5,), np.float32)
PICTURE = spaces.Box(0, 255, (36, 40, 3), np.uint8)
PARTS = spaces.Dict({"vector": VECTOR, "picture": PICTURE, "gear": spaces.Discrete(4)})
CHOICE = spaces.Discrete(4)
FORCE = spaces.Box(np.array([-2.0, 0.5], np.float32), np.array([2.0, 3.5], np.float32))
CLASSES = {
    "ppo": stable_baselines3.PPO,
    "a2c": stable_baselines3.A2C,
    "dqn": stable_baselines3.DQN,
    "sac": stable_baselines3.SAC,
    "td3": stable_baselines3.TD3,
    "maskable_ppo": sb3_contrib.MaskablePPO,
    "recurrent_ppo": sb3_contrib.RecurrentPPO,
    "qrdqn": sb3_contrib.QRDQN,
    "tqc": sb3_contrib.TQC,
    "crossq": sb3_contrib.CrossQ,
}
_SMALL: dict[str, dict[str, Any]] = {
    "dqn": {"buffer_size": 8},
    "qrdqn": {"buffer_size": 8, "policy_kwargs": {"n_quantiles": 5}},
    "sac": {"buffer_size": 8},
    "td3": {"buffer_size": 8},
    "tqc": {"buffer_size": 8},
    "crossq": {"buffer_size": 8, "policy_kwargs": {"net_arch": {"pi": [32, 32], "qf": [32, 32]}}},
    "ppo": {"n_steps": 8, "batch_size": 8},
    "maskable_ppo": {"n_steps": 8, "batch_size": 8},
    "recurrent_ppo": {"n_steps": 8, "batch_size": 8, "policy_kwargs": {"lstm_hidden_size": 16}},
}


class Spaces(gym.Env[Any, Any]):
    """An env of any spaces; nothing happens in it."""

    def __init__(self, observation: Space[Any], action: Space[Any]) -> None:
        self.observation_space, self.action_space = observation, action

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return self.observation_space.sample(), 0.0, False, False, {}

    def action_masks(self) -> Any:
        return np.ones(int(self.action_space.n), bool)  # type: ignore[attr-defined]


def make_model(algorithm: str, observation: Space[Any], action: Space[Any], **options: Any) -> Any:
    """Return a model whose weights are random and large; running statistics are not those of a new network."""
    policy = "MlpPolicy"
    if isinstance(observation, spaces.Dict):
        policy = "MultiInputPolicy"
    elif len(observation.shape or ()) == 3:
        policy = "CnnPolicy"
    if algorithm == "recurrent_ppo":
        policy = policy.replace("Policy", "LstmPolicy")
    small = _SMALL.get(algorithm, {})
    kwargs = {**small.get("policy_kwargs", {}), **options.pop("policy_kwargs", {})}
    torch.manual_seed(7)
    made: Any = CLASSES[algorithm]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # SB3 warns of small rollouts and of GPUs
        model = made(
            policy, Spaces(observation, action), device="cpu", seed=3, **{**small, **options, "policy_kwargs": kwargs}
        )
    generator = torch.Generator().manual_seed(11)
    with torch.no_grad():
        for name, tensor in model.policy.state_dict().items():
            if not tensor.is_floating_point():
                continue
            if name.endswith("ra_var"):
                tensor.copy_(torch.rand(tensor.shape, generator=generator) + 0.5)
            elif "log_std" in name and tensor.dim() < 2 and "actor" not in name:
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.3 - 0.5)
            else:
                spread = 1.4 / tensor[0].numel() ** 0.5 if tensor.dim() > 1 else 0.05
                tensor.add_(torch.randn(tensor.shape, generator=generator) * spread)
    return model


@cache
def action_of(algorithm: str) -> Space[Any]:
    return FORCE if algorithm in ("sac", "td3", "tqc", "crossq") else CHOICE
