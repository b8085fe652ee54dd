"""Envs for a learner that no compiled twin serves: in this process or in several, with others on the fixed seats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from mosaic.config.run import RunConfig
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import child_seed
from mosaic.envs.catalog import make_env
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import Casting
from mosaic.runners.fixed_policies import ControllerOthers, make_others


def make_python_vector(
    config: RunConfig,
    casting: Casting,
    envs: int,
    processes: int,
    number: int = 0,
    by_env: Mapping[int, Mapping[AgentID, PolicyID]] | None = None,
) -> VectorEnv:
    """`number` tells several such vectors of one run apart; `by_env` are guests on single envs' seats."""
    others_here: Callable[[], ControllerOthers] | None = None
    if casting.played or by_env:
        seed = child_seed(config.seed, "others", number)
        others_here = partial(make_others, config.environment, dict(casting.played), seed, by_env)
    if processes:
        from mosaic.envs.vector.multi_process import ProcessVector

        return ProcessVector(partial(make_env, config.environment), envs, processes, others_here)
    others = others_here() if others_here else None
    return PythonVector([make_env(config.environment) for _ in range(envs)], others)
