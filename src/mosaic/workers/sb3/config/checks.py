"""Checks of a run before it is created: agents, spaces, masks, numbers of envs, and options that SB3 itself refuses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gymnasium.spaces import Box, Space

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, notify
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import has_illegal_actions
from mosaic.envs.vector.encoding import picture_layout
from mosaic.learners.agent_roles import AgentRoles, read_mapping
from mosaic.learners.opponents import check_played
from mosaic.store.policies.init_source import parse_init
from mosaic.workers.sb3.config.algorithms import ALGORITHMS, check_actions, network_kind
from mosaic.workers.sb3.config.build import make_idle_model, try_model
from mosaic.workers.sb3.config.options import Sb3Options
from mosaic.workers.sb3.env.make import Places, check_envs, places_of

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


def read_roles(config: RunConfig, spec: EnvSpec) -> AgentRoles:
    """Read the mapping of agents to policies.

    Names of policies that an env declares do not divide its agents here: all of them share the one policy.
    """
    return read_mapping(config, replace(spec, facts=replace(spec.facts, policy_names={})))


def check_run(config: RunConfig, options: Sb3Options, spec: EnvSpec) -> None:
    """Raise InputError for whatever would make the run fail at its start."""
    algorithm = config.training.algorithm or next(iter(ALGORITHMS))
    config = with_envs(config, spec)
    roles = read_roles(config, spec)
    check_played(roles.every_played, spec)
    _check_one_policy(roles)
    places = places_of(roles, spec)
    _check_equal(places, spec)
    if not config.agents:
        _mention_one_policy(roles, spec)
    for agent in (*places.learners, *places.frozen):
        check_actions(algorithm, agent, spec.action_spaces[agent])
        network_kind(algorithm, agent, spec.observation_spaces[agent])
    options = with_device(config, options)
    runners = config.resources.num_env_runners or 1
    check_envs(config, roles, spec, compiled=options.compiled_env, runners=runners)
    slots = (config.environment.num_envs or 1) * (1 if spec.facts.turn_based else len(places.learners))
    agent = places.learners[0]
    _check_options(algorithm, options, spec.observation_spaces[agent], slots, len(places.learners))
    try_model(algorithm, options, agent, (spec.observation_spaces[agent], spec.action_spaces[agent]), slots)
    if config.training.init is not None:
        parse_init(config.training.init)
    if not ALGORITHMS[algorithm].masks and not isinstance(spec.action_spaces[agent], Box):
        _check_all_legal(algorithm, config)


def model_of(config: RunConfig, options: Sb3Options, spec: EnvSpec) -> BaseAlgorithm:
    """Return a model like the run's, without env."""
    agent = places_of(read_roles(config, spec), spec).learners[0]
    spaces = spec.observation_spaces[agent], spec.action_spaces[agent]
    return make_idle_model(config.training.algorithm or next(iter(ALGORITHMS)), options, agent, spaces)


def with_envs(config: RunConfig, spec: EnvSpec) -> RunConfig:
    """Fill in the number of envs: one, one for each process, or one for each agent of a turn-based game."""
    if config.environment.num_envs is not None:
        return config
    places = places_of(read_roles(config, spec), spec)
    count = max(config.resources.num_env_runners or 1, len(places.rotating), 1)
    return config.model_copy(update={"environment": config.environment.model_copy(update={"num_envs": count})})


def with_device(config: RunConfig, options: Sb3Options) -> Sb3Options:
    """Fill in the device, which must be there: the CPU unless the options or `resources.num_gpus` ask for a GPU."""
    gpus, device = config.resources.num_gpus, options.device
    if gpus not in (0, 1):
        raise InputError(
            f"The worker sb3 learns on one GPU or none, and resources.num_gpus is {gpus:g}. "
            "Type: --set resources.num_gpus=1. RLlib can use several: --worker rllib"
        )
    if gpus and device == "cpu":
        raise InputError("resources.num_gpus is 1, and training.params.device is cpu. Leave one of them out.")
    device = device or ("cuda" if gpus else "cpu")
    if device != "cpu":
        from mosaic.learners.engines.torch import checked_device

        checked_device(device)
    return options.model_copy(update={"device": device})


def _check_one_policy(roles: AgentRoles) -> None:
    trained = [name for name, trains in zip(roles.plan.names, roles.plan.trained, strict=True) if trains]
    if len(trained) != 1:
        found = ", ".join(trained) or "none"
        raise InputError(
            f"The worker sb3 trains one policy in a run, and here it would be {len(trained)}: {found}. Name one of "
            "them in policies_to_train, give the others fixed policies (--agent NAME=POLICY), or use --worker native "
            "or rllib."
        )


def _mention_one_policy(roles: AgentRoles, spec: EnvSpec) -> None:
    """Tell the user where agents for which the env names several policies share one."""
    named = dict.fromkeys(spec.facts.policy_names[agent] for agent in roles.learners if spec.facts.policy_names)
    if len(named) > 1 and len(roles.plan.names) == 1:
        notify(
            f"{spec.env_id} names {len(named)} policies: {', '.join(named)}. Stable-Baselines3 trains one, "
            f"'{roles.plan.names[0]}', for all of their agents. To train each of them: --worker native or rllib."
        )


def _check_equal(places: Places, spec: EnvSpec) -> None:
    first, *others = places.learners
    for agent in others:
        same = spec.observation_spaces[agent] == spec.observation_spaces[first]
        if not same or spec.action_spaces[agent] != spec.action_spaces[first]:
            raise InputError(
                f"The agents {first} and {agent} cannot share a policy of Stable-Baselines3: their observations or "
                f"actions differ. Give one of them a fixed policy (--agent {agent}=random), or train several policies: "
                "--worker native."
            )


def _check_options(algorithm: str, options: Sb3Options, seen: Space[Any], slots: int, learners: int) -> None:
    given = options.model_dump()
    frequency = given.get("train_freq")
    if isinstance(frequency, tuple | list) and frequency[1] == "episode" and slots > 1:
        raise InputError(
            f"training.params.train_freq={list(frequency)}: Stable-Baselines3 trains by episodes in one env alone, and "
            f"here are {slots}. Say a number of steps."
        )
    if not ALGORITHMS[algorithm].replays and given["n_steps"] * slots < 2:
        raise InputError("training.params.n_steps: a rollout needs at least two steps, and has one. Say n_steps=2.")
    if given.get("top_quantiles_to_drop_per_net", 0) >= given.get("n_quantiles", 1 << 30):
        raise InputError("training.params.top_quantiles_to_drop_per_net must be less than n_quantiles.")
    own_optimizer = given["optimizer_class"] is None and (algorithm == "qrdqn" or given.get("use_rms_prop"))
    if own_optimizer and given["optimizer_kwargs"]:
        raise InputError(
            f"training.params.optimizer_kwargs: {algorithm} replaces them by those of its own optimizer; set "
            "optimizer_class too, such as optimizer_class=Adam."
        )
    if ALGORITHMS[algorithm].replays and learners > 1 and _changes_replay(given):
        raise InputError(
            "With several agents that learn, the replay buffer is SB3's own, of single steps: leave n_steps, "
            "optimize_memory_usage and replay_buffer_class at their defaults."
        )
    if not (options.normalize_observations or options.normalize_rewards):
        return
    if learners > 1:
        raise InputError(
            "normalize_observations and normalize_rewards need one agent that learns: VecNormalize would count agents "
            "that have ended. Leave them out, or use --worker native."
        )
    flat = isinstance(seen, Box) and seen.dtype is not None and seen.dtype.kind == "f" and picture_layout(seen) is None
    if options.normalize_observations and not flat:
        raise InputError(f"normalize_observations scales numbers, and here observations are {seen}. Leave it out.")


def _changes_replay(given: dict[str, Any]) -> bool:
    return given["n_steps"] > 1 or given["optimize_memory_usage"] or given["replay_buffer_class"] is not None


def _check_all_legal(algorithm: str, config: RunConfig) -> None:
    if has_illegal_actions(config.environment):
        raise InputError(
            f"{config.environment.id} restricts which actions are legal, and Stable-Baselines3's {algorithm} would "
            "play illegal ones. Use --algo maskable_ppo."
        )
