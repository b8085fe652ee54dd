"""RLlib's PPO on one core, in its own process: python rllib.py cartpole|spread JSON-options."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from time import perf_counter, process_time
from typing import Any

os.environ.update(RAY_USAGE_STATS_ENABLED="0", RAY_AIR_NEW_OUTPUT="0", PYTHONWARNINGS="ignore")
warnings.simplefilter("ignore")


def cartpole(asked: dict[str, Any]) -> None:
    """Train until the mean return reaches the goal; print it at once, as shutting Ray down is not part of learning."""
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    config = (
        PPOConfig()
        .environment("CartPole-v1")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=8)
        .training(
            lr=3e-4, num_epochs=6, vf_loss_coeff=0.01
        )  # those of RLlib's own tuned example for CartPole, and its net
        .rl_module(model_config=DefaultModelConfig(fcnet_hiddens=[32], fcnet_activation="linear", vf_share_layers=True))
        .debugging(seed=asked["seed"], log_level="ERROR")
    )
    algorithm = config.build_algo()
    steps, mean = 0, 0.0
    while mean < asked["goal"] and steps < asked["most"]:
        seen = algorithm.train()["env_runners"]
        steps, mean = int(seen["num_env_steps_sampled_lifetime"]), float(seen.get("episode_return_mean", 0.0))
    print(json.dumps({"steps": steps, "reward": mean}), flush=True)
    algorithm.stop()


def spread(asked: dict[str, Any]) -> None:
    """Train simple_spread with one policy for all agents; the first iteration is not counted."""
    from mpe2 import simple_spread_v3
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
    from ray.tune.registry import register_env

    register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    net = DefaultModelConfig(fcnet_hiddens=[64, 64], fcnet_activation="relu", vf_share_layers=False)
    config = (
        PPOConfig()
        .environment("spread")
        .env_runners(num_env_runners=0, num_envs_per_env_runner=asked["envs"])
        .training(
            train_batch_size_per_learner=asked["batch"], minibatch_size=asked["minibatch"], num_epochs=asked["epochs"],
            lr=asked["lr"], gamma=asked["gamma"], lambda_=0.95, entropy_coeff=0.01, clip_param=0.2, use_kl_loss=False,
        )
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"shared": RLModuleSpec(model_config=net)}))
        .debugging(seed=asked["seed"], log_level="ERROR")
    )  # fmt: skip
    algorithm = config.build_algo()
    before = int(algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"])
    wall, cpu, steps, mean = perf_counter(), process_time(), before, float("nan")
    while steps - before < asked["steps"]:
        seen = algorithm.train()["env_runners"]
        steps, mean = int(seen["num_env_steps_sampled_lifetime"]), float(seen.get("episode_return_mean", "nan"))
    took = {"wall_s": perf_counter() - wall, "cpu_s": process_time() - cpu}
    print(json.dumps({"steps": steps - before, "reward": mean / 3, **took}), flush=True)
    algorithm.stop()


def main() -> None:
    import ray
    import torch

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            object_store_memory=200 * 2**20, _temp_dir=folder,
        )  # fmt: skip
        try:
            {"cartpole": cartpole, "spread": spread}[sys.argv[1]](json.loads(sys.argv[2]))
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
