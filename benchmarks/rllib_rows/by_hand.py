"""RLlib as in its documentation, with its stock wrappers: python by_hand.py JSON-question."""

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

SINGLE = "gym/"  # family of envs with one agent
PLAYED = 200  # episodes


def config_of(asked: dict[str, Any]) -> Any:
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.algorithms.sac import SACConfig
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    net = DefaultModelConfig(**asked["model"])
    config = (
        {"ppo": PPOConfig, "sac": SACConfig}[asked.get("algorithm", "ppo")]()
        .env_runners(num_env_runners=asked["runners"], num_envs_per_env_runner=asked["envs"])
        .training(**asked["training"])
        .debugging(seed=asked["seed"], log_level="ERROR")
    )
    if asked["env"].startswith(SINGLE):
        return config.environment(asked["env"].removeprefix(SINGLE)).rl_module(model_config=net)
    return _several(config, net)


def _several(config: Any, net: Any) -> Any:
    from mpe2 import simple_spread_v3
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
    from ray.tune.registry import register_env

    register_env("spread", lambda _: ParallelPettingZooEnv(simple_spread_v3.parallel_env()))
    return (
        config.environment("spread")
        .multi_agent(policies={"shared"}, policy_mapping_fn=lambda *_, **__: "shared")
        .rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs={"shared": RLModuleSpec(model_config=net)}))
    )


def measure(asked: dict[str, Any]) -> dict[str, float]:
    algorithm = config_of(asked).build_algo()
    before = int(algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"])
    wall, cpu, steps, mean = perf_counter(), process_time(), before, float("nan")
    while steps - before < asked["steps"]:
        seen = algorithm.train()["env_runners"]
        steps, mean = int(seen["num_env_steps_sampled_lifetime"]), float(seen.get("episode_return_mean", "nan"))
    figures = {
        "steps": steps - before,
        "wall_s": perf_counter() - wall,
        "cpu_s": process_time() - cpu,
        "reward": mean,
    }
    algorithm.stop()
    return figures


def learn(asked: dict[str, Any]) -> dict[str, float]:
    """Train for a number of env steps, and play the likeliest actions."""
    algorithm = config_of(asked).build_algo()
    began, steps = perf_counter(), 0
    while steps < asked["total"]:
        steps = int(algorithm.train()["env_runners"]["num_env_steps_sampled_lifetime"])
    figures = {"steps": steps, "wall_s": perf_counter() - began}
    figures["played"] = _mean_return(asked["env"].removeprefix(SINGLE), algorithm.get_module())
    algorithm.stop()
    return figures


def _mean_return(env_id: str, module: Any) -> float:
    """Play a module of SAC: its mean is squashed, which RLlib's own inference leaves out, and scaled to the bounds."""
    import gymnasium
    import numpy as np
    import torch

    envs = gymnasium.make_vec(env_id, num_envs=PLAYED, vectorization_mode="sync")
    low, high = envs.action_space.low, envs.action_space.high
    seen, _ = envs.reset(seed=1)
    returns, over = np.zeros(PLAYED), np.zeros(PLAYED, bool)
    while not over.all():
        with torch.no_grad():
            inputs = module.forward_inference({"obs": torch.as_tensor(seen)})["action_dist_inputs"].numpy()
        squashed = np.tanh(inputs[:, : low.shape[1]])
        seen, rewards, terminated, truncated, _ = envs.step(low + (squashed + 1) / 2 * (high - low))
        returns += np.where(over, 0.0, rewards)
        over |= terminated | truncated
    return float(returns.mean())


def main() -> None:
    import ray
    import torch

    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="ray") as folder:
        ray.init(
            num_cpus=max(1, asked["runners"]), include_dashboard=False, log_to_driver=False, logging_level="ERROR",
            object_store_memory=200 * 2**20, _temp_dir=folder,
        )  # fmt: skip
        try:
            print(json.dumps((learn if asked.get("whole") else measure)(asked)), flush=True)
        finally:
            ray.shutdown()


if __name__ == "__main__":
    main()
