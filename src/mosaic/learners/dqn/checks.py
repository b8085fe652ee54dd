"""Checks of DQN's limitations before anything is built."""

from __future__ import annotations

from importlib.util import find_spec

from mosaic.config.run import RunConfig
from mosaic.config.sections import DEFAULT_TIMESTEPS
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.machine import check_memory, free_memory
from mosaic.envs.compiled.registry import has_kernel
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.dqn.options import CqlOptions, DqnOptions, QOptions
from mosaic.learners.ppo.hardware import usual_torch_threads
from mosaic.learners.recorded import check_offline
from mosaic.models.packed_rows import RowPacking, row_bytes, row_packing

ENVS = 1  # as in SB3; with more, there are fewer updates per env step
_TESTS = 20  # of the greedy policy in a run, where they cost little


def check_dqn(config: RunConfig, roles: AgentRoles, spec: EnvSpec, options: QOptions) -> None:
    """Raise InputError where only PPO is possible, or a machine with more memory is needed."""
    if isinstance(options, CqlOptions):
        check_offline(config, "cql", options)
    plan = roles.plan
    if plan.self_play or plan.central:
        asked = "self_play" if plan.self_play else "shared_value_function"
        raise InputError(f"DQN does not support {asked}. Use --policies parameter_sharing, or PPO: --algo ppo.")
    if len(plan.names) > 1:
        raise InputError(
            f"DQN trains one policy, but {len(plan.names)} learn here: {', '.join(plan.names)}. Give the other agents "
            "fixed policies (--agent NAME=random), or use PPO: --algo ppo."
        )
    for agent in roles.learners:
        head = action_code(spec.action_spaces[agent]).head
        if head.kind != "categorical" or head.parts != 1:
            raise InputError(
                f"DQN chooses one of several actions, but {agent} acts in {spec.action_spaces[agent]}. "
                "PPO can do that: --algo ppo."
            )
    if sees_pictures(roles, spec) and find_spec("torch") is None:
        raise MissingExtraError("DQN needs torch for pictures: pip install 'mosaic-rl[torch]'")
    if isinstance(options, DqnOptions):
        check_buffer_memory(config, roles, spec, options)
        if options.test_every_steps and (obstacle := _untestable(config, roles, spec)):
            raise InputError(f"test_every_steps={options.test_every_steps}: {obstacle}. Set it to 0.")


def _untestable(config: RunConfig, roles: AgentRoles, spec: EnvSpec) -> str | None:
    """Return why a mean return does not tell which policy is the best; None if it does."""
    if config.environment.family == "external":
        return "there is no env to test in, only programs that connect"
    if len(roles.learners) > 1 and spec.facts.competitive:
        return f"what one of {', '.join(roles.learners)} wins, another loses, and all have the same policy"
    return None


def sees_pictures(roles: AgentRoles, spec: EnvSpec) -> bool:
    codes = [row_code(spec.observation_spaces[agent]) for agent in roles.learners]
    return any(part.picture for code in codes for part in code.parts)


def check_buffer_memory(config: RunConfig, roles: AgentRoles, spec: EnvSpec, options: DqnOptions) -> None:
    """Raise InputError where the replay buffer needs more memory than is free.

    Masks are always counted: whether there are any is only known once an env has started.
    """
    first = roles.learners[0]
    code = row_code(spec.observation_spaces[first])
    envs, total = config.environment.num_envs or ENVS, config.training.total_timesteps
    size = buffer_rows(options.buffer_size, envs, len(roles.learners), total)
    each = ring_bytes(code.width, 1, row_packing([code]), action_code(spec.action_spaces[first]).head.width)
    fitting = free_memory() // (2 * each)
    check_memory(
        f"A buffer of {size:,} decisions takes",
        size * each,
        f"Set buffer_size to {max(1, fitting)} or less: --set training.params.buffer_size={max(1, fitting)}",
        limit_mb=config.resources.max_memory_mb,
    )


def settle_dqn(config: RunConfig, options: QOptions, roles: AgentRoles, spec: EnvSpec) -> tuple[RunConfig, QOptions]:
    """Return configuration and options with a value for every setting left to Mosaic."""
    environment = config.environment.model_copy(update={"num_envs": config.environment.num_envs or ENVS})
    if sees_pictures(roles, spec) and options.torch_threads is None:
        width = row_code(spec.observation_spaces[roles.learners[0]]).width
        options = options.model_copy(update={"torch_threads": usual_torch_threads(width)})
    if isinstance(options, DqnOptions) and options.test_every_steps is None:
        cheap = len(spec.possible_agents) == 1 and has_kernel(environment.id)
        total = config.training.total_timesteps or DEFAULT_TIMESTEPS
        options = options.model_copy(update={"test_every_steps": max(1, total // _TESTS) if cheap else 0})
    return config.model_copy(update={"environment": environment}), options


def buffer_rows(buffer_size: int, envs: int, agents: int, total_env_steps: int | None) -> int:
    """Return the number of decisions the buffer must hold: no more than a run of known length makes."""
    return buffer_size if total_env_steps is None else min(buffer_size, (total_env_steps + envs) * agents)


def ring_bytes(width: int, size: int, packing: RowPacking | None = None, mask_width: int = 0) -> int:
    """Return the bytes that `make_ring` needs for `size` decisions of `width` numbers each."""
    return size * (2 * row_bytes(width, packing) + mask_width + 8 + 4 + 4)
