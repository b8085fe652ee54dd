"""SB3 as its users call it: python by_hand.py JSON-question."""

from __future__ import annotations

import json
import sys
import warnings
from time import perf_counter, process_time

import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv

warnings.simplefilter("ignore")


def main() -> None:
    asked = json.loads(sys.argv[1])
    torch.set_num_threads(1)
    params = dict(asked["params"])
    for name, value in params.items():
        if isinstance(value, str) and value.startswith("linear_"):
            params[name] = LinearSchedule(float(value.removeprefix("linear_")), 0.0, 1.0)
    if "net_arch" in params:
        params["policy_kwargs"] = {"net_arch": params.pop("net_arch")}
    vec = SubprocVecEnv if asked.get("processes") else DummyVecEnv
    env = make_vec_env(asked["env"], n_envs=asked["envs"], seed=asked["seed"], vec_env_cls=vec)
    kind = getattr(stable_baselines3, asked["algorithm"].upper())
    model = kind("MlpPolicy", env, seed=asked["seed"], device="cpu", **params)
    wall, cpu = perf_counter(), process_time()
    model.learn(asked["steps"])
    figures = {"steps": model.num_timesteps, "wall_s": perf_counter() - wall, "cpu_s": process_time() - cpu}
    returns = [episode["r"] for episode in model.ep_info_buffer]
    reward = sum(returns) / len(returns) if returns else float("nan")
    print(json.dumps({**figures, "reward": reward}), flush=True)
    env.close()


if __name__ == "__main__":
    main()
