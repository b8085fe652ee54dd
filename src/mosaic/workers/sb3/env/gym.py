"""SB3's own vector env, DummyVecEnv, over single-agent Gymnasium envs: the same numbers as without Mosaic."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from stable_baselines3.common.vec_env import DummyVecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn

from mosaic.core.ids import AgentID
from mosaic.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from mosaic.runners.screen import Draw


class GymVecEnv(DummyVecEnv):
    """DummyVecEnv that also reports which agents acted and how many episodes ended, and renders envs."""

    def __init__(self, envs: Sequence[GymnasiumEnv]) -> None:
        self._owners = tuple(envs)
        super().__init__([partial(getattr, env, "env") for env in envs])
        self.envs_count = len(envs)
        self.agents = (AGENT,)
        self.freezes = False
        self.acted, self.acted_count = np.ones(len(envs), bool), len(envs)
        self.finished, self.ended = np.zeros(len(envs), bool), 0
        self.steps = None  # one in every step

    def step_wait(self) -> VecEnvStepReturn:
        try:
            observations, rewards, dones, infos = super().step_wait()
        except Exception as error:
            error.add_note(f"This came from {self._owners[0].spec.env_id}.")
            raise
        self.finished, self.ended = dones, int(np.count_nonzero(dones))
        return observations, rewards, dones, infos

    def acting(self, index: int) -> tuple[AgentID, ...]:
        return (AGENT,)

    def draw(self, index: int) -> Draw:
        return self._owners[index].render

    def close(self) -> None:
        for env in self._owners:
            env.close()
