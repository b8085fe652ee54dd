"""SB3 as its users call it: python by_hand.py JSON-question."""

from __future__ import annotations

import json
import sys
import warnings
from time import perf_counter, process_time
from typing import Any

import numpy as np
import stable_baselines3
import torch
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.utils import LinearSchedule
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnv, VecEnvStepReturn

warnings.simplefilter("ignore")


class FreeVecEnv(VecEnv):
    """Vector env whose steps cost nothing: what remains is SB3's own time."""

    def __init__(self, like: VecEnv) -> None:
        super().__init__(like.num_envs, like.observation_space, like.action_space)
        self._observations = np.stack([like.observation_space.sample() for _ in range(like.num_envs)])
        self._rewards, self._dones = np.ones(like.num_envs, np.float32), np.zeros(like.num_envs, bool)
        self._infos: list[dict[str, Any]] = [{} for _ in range(like.num_envs)]

    def reset(self) -> Any:
        return self._observations

    def step_async(self, actions: Any) -> None:
        pass

    def step_wait(self) -> VecEnvStepReturn:
        return self._observations, self._rewards, self._dones, self._infos

    def close(self) -> None:
        pass

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        return [None] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        raise NotImplementedError

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        raise NotImplementedError

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        return [True] * self.num_envs


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
    env = FreeVecEnv(env) if asked.get("free") else env
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
