"""Construction of AlphaZero's learner from a run configuration, and checks of what it honours."""

from __future__ import annotations

import numpy as np
from gymnasium import Space
from gymnasium.spaces import Box

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.machine import check_memory, free_memory
from mosaic.envs.compiled.vector import Features, SearchRules, make_compiled_vector
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec, sharing_envs
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.agent_roles import AgentRoles, read_agent_roles
from mosaic.learners.alphazero.algorithm import AlphaZeroLearner
from mosaic.learners.alphazero.options import AlphaZeroOptions
from mosaic.learners.base import Assembled
from mosaic.learners.resources import meet_resources
from mosaic.models.architecture import Architecture
from mosaic.models.dense import set_product_threads
from mosaic.policies.search.controller import searchable_kernel
from mosaic.policies.search.features import observation_network

ENVS = 256  # games at once; searches of all of them share each call of the network


def check_alphazero(config: RunConfig, options: AlphaZeroOptions, roles: AgentRoles, spec: EnvSpec) -> None:
    """Raise InputError for what AlphaZero does not honour, before anything is built."""
    kernel, rules = searchable_kernel(spec)
    if roles.played or roles.ages:
        names = ", ".join({**roles.played, **roles.ages})
        raise InputError(
            f"alphazero plays all agents itself, but another policy is to play {names}. Leave --agent out, or train "
            "with --algo ppo, whose opponents may be any."
        )
    if roles.episodes is not None or len(roles.plan.names) != 1 or not all(roles.plan.trained):
        raise InputError("alphazero trains one policy, which plays all agents. Leave agents and policies_to_train out.")
    if config.environment.curriculum:
        raise InputError("alphazero does not change its env during training. Leave environment.curriculum out.")
    games = config.environment.num_envs or ENVS
    if options.threads > games:
        raise InputError(f"threads={options.threads} is more than the {games} games at once: set num_envs higher.")
    features = _features(options, rules)
    width = kernel.widths[0] if features is None else features.width
    each = width * np.dtype(kept_type(spec, features)).itemsize + 4 * kernel.heads[0].width + 4
    fitting = free_memory() // (2 * each)
    check_memory(
        f"A buffer of {options.buffer_size:,} positions takes",
        options.buffer_size * each,
        f"Set buffer_size to {max(1, fitting)} or less: --set training.params.buffer_size={max(1, fitting)}",
        limit_mb=config.resources.max_memory_mb,
    )


def settle_alphazero(config: RunConfig, options: AlphaZeroOptions) -> tuple[RunConfig, AlphaZeroOptions]:
    """Return configuration and options with a value for every setting left to Mosaic."""
    environment = config.environment.model_copy(update={"num_envs": config.environment.num_envs or ENVS})
    return config.model_copy(update={"environment": environment}), options


@sharing_envs()
def assemble_alphazero(config: RunConfig, options: AlphaZeroOptions) -> Assembled:
    """Make the games and the learner; the caller closes it."""
    set_product_threads(1)  # batches are small: more threads would spin
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    options = meet_resources(options, config, roles, spec)
    check_alphazero(config, options, roles, spec)
    games = config.environment.num_envs or ENVS
    vector = make_compiled_vector(config.environment, games)
    assert vector is not None, "checked"
    assert vector.kernel.search is not None, "checked"
    shape, features = vector.shape, _features(options, vector.kernel.search)
    architecture, outer = game_architecture(spec, shape, options)
    total, dtype = config.training.total_timesteps, kept_type(spec, features)
    learner = AlphaZeroLearner(vector, roles.plan, architecture, options, config.seed, total, dtype, features)
    said = (
        f"fused engine, {games} × {config.environment.id} (compiled twin), {options.simulations} simulations a move, "
        f"room for {options.buffer_size} positions"
    )
    return Assembled(learner, roles, spec, (outer,), "fused", said)


def game_architecture(
    spec: EnvSpec, shape: VectorShape, options: AlphaZeroOptions
) -> tuple[Architecture, Architecture]:
    """Return the network that is trained, and the one that is saved, which sees observations."""
    features = _features(options, searchable_kernel(spec)[1])
    width = shape.width if features is None else features.width
    architecture = Architecture(width, shape.heads[0], options.hidden, options.activation, shared=True)
    return architecture, architecture if features is None else observation_network(architecture, features)


def _features(options: AlphaZeroOptions, rules: SearchRules) -> Features | None:
    return rules.features if options.features else None


def kept_type(spec: EnvSpec, features: Features | None = None) -> type[np.generic]:
    """Return the type in which the network's inputs are kept: one byte for small integers."""
    small = all(_is_small(space, features) for space in spec.observation_spaces.values())
    return np.int8 if small else np.float32


def _is_small(space: Space[object], features: Features | None) -> bool:
    if space.dtype is None or not (space.dtype == np.int8 or space.dtype == np.bool_):
        return False
    if features is None:
        return True
    if not isinstance(space, Box) or any((array % 1).any() for array in (features.weight, features.bias)):
        return False
    low, high = (np.ravel(bound).astype(np.float64)[:, None] for bound in (space.low, space.high))
    most = np.maximum(features.weight * low, features.weight * high).sum(axis=0) + features.bias
    return bool(np.bincount(features.feature, np.maximum(most, 0)).max() <= np.iinfo(np.int8).max)
