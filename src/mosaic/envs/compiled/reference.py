"""Access to the Gymnasium env inside an Env, and to the time limit of its wrappers."""

from __future__ import annotations

from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.env import Env
from mosaic.envs.wrappers.limits import TimeLimit as OwnTimeLimit
from mosaic.envs.wrappers.transform import Named

_HARMLESS = (OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics)

EnvT = TypeVar("EnvT")


def bare_env(env: Env) -> tuple[Any, int]:
    """Strip the wrappers that only name, observe or truncate; return the rest and the time limit (0: none).

    The first wrapper that does more is kept: check the type of the result.
    """
    limits: list[int] = []
    while isinstance(env, OwnTimeLimit | Named):
        if isinstance(env, OwnTimeLimit):
            limits.append(env.max_steps)
        env = env.env
    if not isinstance(env, GymnasiumEnv):
        return env, min(limits, default=0)
    inner: gymnasium.Env[Any, Any] = env.env
    while isinstance(inner, (TimeLimit, *_HARMLESS)):
        if isinstance(inner, TimeLimit):
            limits.append(int(inner._max_episode_steps))
        inner = inner.env
    return inner, min(limits, default=0)


def read_reference(config: EnvironmentConfig, kind: type[EnvT]) -> tuple[EnvT, int] | None:
    """Return the configured env if it is of exactly this class, to read its constants alone; and its time limit."""
    from mosaic.envs.shared_env import described_env

    with described_env(config) as env:
        inner, limit = bare_env(env)
    return (inner, limit) if type(inner) is kind else None


def load_state(env: Env, state: NDArray[np.float64], ints: NDArray[np.int64]) -> None:
    """Load a row of a kernel's state into a reference env that keeps all of it in `state`."""
    bare_env(env)[0].state = state.copy()
