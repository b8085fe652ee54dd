"""Stable-Baselines3 on one thread: PPO and A2C on Gymnasium envs, PPO on simple_spread with SuperSuit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from ppo_rows.measure import Outcome, timed
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv, VecMonitor

torch.set_num_threads(1)


class Goal(BaseCallback):
    """Callback that ends the training after an update when the mean of the last 100 episodes reaches the goal."""

    def __init__(self, goal: float | None) -> None:
        super().__init__()
        self.goal, self.reached = goal, False

    def _on_rollout_start(self) -> None:
        if self.goal is not None and len(self.model.ep_info_buffer or ()) >= 100:
            self.reached = mean_return(self.model) >= self.goal

    def _on_step(self) -> bool:
        return not self.reached


def mean_return(model: BaseAlgorithm) -> float:
    return float(np.mean([episode["r"] for episode in model.ep_info_buffer or ()] or [np.nan]))


def make_model(env_id: str, envs: int, seed: int, params: dict[str, Any], algorithm: str = "ppo") -> BaseAlgorithm:
    return _model(make_vec_env(env_id, envs, seed=seed), seed, params, algorithm)


def make_recurrent_model(envs: int, seed: int, params: dict[str, Any], size: int) -> BaseAlgorithm:
    """Return RecurrentPPO on our memory env, with one LSTM for actor and critic and a hidden layer for each."""
    from sb3_contrib import RecurrentPPO

    from mosaic.envs.toys.memory_tasks import MemoryTask, RecallOptions

    shape = {"net_arch": [size], "lstm_hidden_size": size, "shared_lstm": True, "enable_critic_lstm": False}
    env = make_vec_env(lambda: MemoryTask(RecallOptions().rules()), envs, seed=seed)
    model: BaseAlgorithm = RecurrentPPO("MlpLstmPolicy", env, seed=seed, device="cpu", policy_kwargs=shape, **params)
    return model


def make_spread_model(envs: int, seed: int, params: dict[str, Any]) -> BaseAlgorithm:
    import supersuit
    from mpe2 import simple_spread_v3

    set_random_seed(seed)  # SuperSuit's vector env takes no seed
    env = supersuit.pettingzoo_env_to_vec_env_v1(simple_spread_v3.parallel_env())
    return _model(VecMonitor(supersuit.concat_vec_envs_v1(env, envs, base_class="stable_baselines3")), None, params)


def _model(env: VecEnv, seed: int | None, params: dict[str, Any], algorithm: str = "ppo") -> BaseAlgorithm:
    kind: Any = {"ppo": PPO, "a2c": A2C}[algorithm]
    model: BaseAlgorithm = kind("MlpPolicy", env, seed=seed, device="cpu", **params)
    return model


def train(model: BaseAlgorithm, steps: int, goal: float | None = None, agents: int = 1) -> Outcome:
    """Train for a number of env steps: SuperSuit exposes every agent as an env of its own."""
    with timed() as clock:
        model.learn(steps * agents, callback=Goal(goal))
    model.get_env().close()  # type: ignore[union-attr]
    return Outcome(model.num_timesteps // agents, clock.wall_s, clock.cpu_s, mean_return(model))
