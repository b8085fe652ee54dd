"""Construction of a SAC or TD3 learner from a run configuration, and the checks before it."""

from __future__ import annotations

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.machine import check_memory, free_memory
from mosaic.envs.compiled.vector import make_compiled_vector
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec, sharing_envs
from mosaic.envs.vector.encoding import ActionHead, action_range, row_code
from mosaic.envs.vector.layout import VectorEnv, VectorShape
from mosaic.learners.actor_critic.algorithm import ActorCriticLearner
from mosaic.learners.actor_critic.options import ActorCriticOptions, SacOptions
from mosaic.learners.agent_roles import AgentRoles, read_agent_roles
from mosaic.learners.base import Assembled
from mosaic.learners.dqn.checks import ENVS, buffer_rows, ring_bytes, sees_pictures
from mosaic.learners.ppo.build import make_python_vector
from mosaic.learners.ppo.hardware import check_processes, is_compiled
from mosaic.learners.resources import meet_resources
from mosaic.models.architecture import Architecture
from mosaic.models.dense import set_product_threads
from mosaic.runners.fixed_policies import EnvEpisodes


@sharing_envs()
def assemble_actor_critic(config: RunConfig, options: ActorCriticOptions, episodes_before: int = 0) -> Assembled:
    """Make the envs and the policy; the caller closes the learner. `episodes_before` is of earlier attempts."""
    set_product_threads(1)
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    options = meet_resources(options, config, roles, spec)
    check_actor_critic(config, roles, spec, options)  # memory was free at submission, perhaps on another machine
    bounds = action_range(spec.action_spaces[roles.learners[0]])
    assert bounds is not None, "checked"
    envs = config.environment.num_envs or ENVS
    vector: VectorEnv | None = None if roles.played else make_compiled_vector(config.environment, envs)
    world = "compiled twin"
    if vector is None:
        numbers = EnvEpisodes(envs, episodes_before)
        vector = make_python_vector(config, roles, envs, options.env_processes, numbers=numbers)
        world = f"Python envs in {options.env_processes} processes" if options.env_processes else "Python envs"
    try:
        architecture = squashed_architecture(vector.shape, options)
        total = config.training.total_timesteps
        learner = ActorCriticLearner(vector, roles.plan, architecture, options, bounds, config.seed, total)
    except BaseException:
        vector.close()
        raise
    said = f"fused engine, {envs} × {config.environment.id} ({world}), room for {options.buffer_size} decisions"
    return Assembled(learner, roles, spec, (architecture,), "fused", said)


def squashed_architecture(shape: VectorShape, options: ActorCriticOptions) -> Architecture:
    head = ActionHead("squashed", shape.heads[0].sizes)
    return Architecture(shape.width, head, options.hidden, options.activation, shared=True)


def check_actor_critic(config: RunConfig, roles: AgentRoles, spec: EnvSpec, options: ActorCriticOptions) -> None:
    """Raise InputError where another algorithm is needed, or a machine with more memory."""
    name, plan = "SAC" if isinstance(options, SacOptions) else "TD3", roles.plan
    if plan.self_play or plan.central:
        asked = "self_play" if plan.self_play else "shared_value_function"
        raise InputError(f"{name} does not support {asked}. Use --policies parameter_sharing, or PPO: --algo ppo.")
    if len(plan.names) > 1:
        raise InputError(
            f"{name} trains one policy, but {len(plan.names)} learn here: {', '.join(plan.names)}. Give the other "
            "agents fixed policies (--agent NAME=random), or use PPO: --algo ppo."
        )
    for agent in roles.learners:
        space = spec.action_spaces[agent]
        if action_range(space) is None:
            raise InputError(
                f"{name} acts in a Box of floats with finite bounds, but {agent} acts in {space}. Use --algo ppo, "
                "which acts in every space, or --algo dqn for one Discrete action."
            )
        if space != spec.action_spaces[roles.learners[0]]:
            raise InputError(
                f"{name} trains one policy for all agents, but {agent} acts in {space} and {roles.learners[0]} in "
                f"{spec.action_spaces[roles.learners[0]]}. Give one of them a fixed policy, or use --algo ppo."
            )
    if sees_pictures(roles, spec):
        raise InputError(
            f"{name} reads numbers, and {', '.join(roles.learners)} see pictures. Use --algo ppo, or {name} of SB3: "
            f"--worker sb3 --algo {name.lower()}"
        )
    compiled = not roles.played and is_compiled(config.environment)
    envs = config.environment.num_envs or ENVS
    if options.env_processes:
        check_processes(options.env_processes, envs, config.environment, compiled=compiled)
    first = roles.learners[0]
    parts = action_range(spec.action_spaces[first])
    size = buffer_rows(options.buffer_size, envs, len(roles.learners), config.training.total_timesteps)
    width = row_code(spec.observation_spaces[first]).width
    each = ring_bytes(width, 1) + (0 if parts is None else 4 * len(parts.scale))
    fitting = max(1, free_memory() // (2 * each))
    check_memory(
        f"A buffer of {size:,} decisions takes",
        size * each,
        f"Set buffer_size to {fitting} or less: --set training.params.buffer_size={fitting}",
        limit_mb=config.resources.max_memory_mb,
    )


def settle_actor_critic(config: RunConfig) -> RunConfig:
    """Return the configuration with the number of envs."""
    environment = config.environment.model_copy(update={"num_envs": config.environment.num_envs or ENVS})
    return config.model_copy(update={"environment": environment})
