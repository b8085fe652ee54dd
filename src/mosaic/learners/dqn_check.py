"""What DQN cannot do, known before anything is made."""

from __future__ import annotations

import psutil

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.envs.env import EnvSpec
from mosaic.envs.rows import action_code, row_code
from mosaic.learners.casting import Casting
from mosaic.learners.dqn_options import DqnOptions

ENVS = 1  # SB3's; with more, fewer updates are made for every env step
_GIGABYTE = 1e9


def check_dqn(casting: Casting, spec: EnvSpec, options: DqnOptions) -> None:
    """Raises InputError where only PPO will do, or a machine with more memory."""
    plan = casting.plan
    if plan.self_play or plan.central:
        asked = "self_play" if plan.self_play else "shared_value_function"
        raise InputError(f"DQN knows no {asked}. Use --policies parameter_sharing, or PPO: --algo ppo.")
    if len(plan.names) > 1:
        raise InputError(
            f"DQN trains one policy, but here learn {len(plan.names)}: {', '.join(plan.names)}. Give the other agents "
            "fixed policies (--agent NAME=random), or use PPO: --algo ppo."
        )
    for agent in casting.learners:
        head = action_code(spec.action_spaces[agent]).head
        if head.kind != "categorical" or head.parts != 1:
            raise InputError(
                f"DQN picks one of several actions, but {agent} acts in {spec.action_spaces[agent]}. "
                "PPO can do that: --algo ppo."
            )
        if any(part.picture for part in row_code(spec.observation_spaces[agent]).parts):
            raise InputError(f"DQN cannot see pictures, and {agent} does. PPO can: --algo ppo.")
    first = casting.learners[0]
    _check_memory(row_code(spec.observation_spaces[first]).width, options.buffer_size)


def settle_dqn(config: RunConfig) -> RunConfig:
    """Return the configuration with the number of envs filled in."""
    environment = config.environment.model_copy(update={"num_envs": config.environment.num_envs or ENVS})
    return config.model_copy(update={"environment": environment})


def ring_bytes(width: int, size: int) -> int:
    """What `make_ring` takes for so many decisions of so many numbers each, masks apart.

    Only an env that has begun can tell whether it has masks; they are the smaller part.
    """
    return size * (2 * 4 * width + 8 + 4 + 4)


def _check_memory(width: int, size: int) -> None:
    needed = ring_bytes(width, size)
    free = int(psutil.virtual_memory().available)
    if needed > free:
        raise InputError(
            f"A buffer of {size} decisions takes {needed / _GIGABYTE:.1f} GB here, and {free / _GIGABYTE:.1f} GB are "
            f"free on this machine. Set buffer_size to {size * free // needed // 2} or less."
        )
