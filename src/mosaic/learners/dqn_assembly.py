"""From a run configuration to a DQN learner that can iterate; what DQN cannot do is said here."""

from __future__ import annotations

import os

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.env import EnvSpec
from mosaic.envs.rows import action_code, row_code
from mosaic.envs.vector import VectorEnv, VectorShape
from mosaic.learners.casting import Casting, read_casting
from mosaic.learners.dqn import DqnLearner
from mosaic.learners.dqn_options import DqnOptions
from mosaic.learners.fused_replay import ring_bytes
from mosaic.learners.learner import Assembled
from mosaic.learners.vectors import make_python_vector
from mosaic.models.architecture import Architecture
from mosaic.models.threads import set_product_threads

ENVS = 1  # SB3's; with more, fewer updates are made for every env step
_GIGABYTE = 1e9


def assemble_dqn(config: RunConfig, options: DqnOptions) -> Assembled:
    """Makes envs and the policy. Whoever calls this closes the learner."""
    set_product_threads(1)  # batches are small: more threads would spin
    env = make_env(config.environment)
    spec = env.spec
    env.close()
    casting = read_casting(config, spec)
    check_dqn(casting, spec)
    envs = config.environment.num_envs or ENVS
    vector, world = _vector(config, casting, options, envs)
    try:
        casting.plan.check(vector.shape)
        _check_memory(vector.shape, options)
        architecture = q_architecture(vector.shape, options)
        learner = DqnLearner(vector, casting.plan, architecture, options, config.seed, config.training.total_timesteps)
    except BaseException:
        vector.close()
        raise
    said = f"fused engine, {envs} × {config.environment.id} ({world}), room for {options.buffer_size} decisions"
    return Assembled(learner, casting, spec, (architecture,), "fused", said)


def q_architecture(shape: VectorShape, options: DqnOptions) -> Architecture:
    return Architecture(shape.width, shape.heads[0], options.hidden, options.activation, shared=True)


def check_dqn(casting: Casting, spec: EnvSpec) -> None:
    """Raises InputError where only PPO will do."""
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


def _check_memory(shape: VectorShape, options: DqnOptions) -> None:
    needed = ring_bytes(shape, options.buffer_size)
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise InputError(
            f"A buffer of {options.buffer_size} decisions takes {needed / _GIGABYTE:.1f} GB here, and this machine has "
            f"{there / _GIGABYTE:.1f} GB. Set buffer_size to {options.buffer_size * there // needed // 2} or less."
        )


def _vector(config: RunConfig, casting: Casting, options: DqnOptions, envs: int) -> tuple[VectorEnv, str]:
    if not casting.played:
        compiled = make_compiled_vector(config.environment, envs)
        if compiled is not None:
            return compiled, "compiled twin"
    where = f"Python envs in {options.env_processes} processes" if options.env_processes else "Python envs"
    return make_python_vector(config, casting, envs, options.env_processes), where
