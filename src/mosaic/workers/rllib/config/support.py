"""Policy configurations that each of RLlib's algorithms can train, and reasons for those it cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias, get_args

from mosaic.config.sections import EnvironmentConfig, PolicyConfiguration
from mosaic.core.errors import InputError
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import has_illegal_actions
from mosaic.envs.vector.encoding import row_code
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.opponents import check_bound
from mosaic.workers.rllib.config.algorithms import OFFLINE
from mosaic.workers.rllib.config.options import AppoOptions, ImpalaOptions, RllibOptions

Feature: TypeAlias = PolicyConfiguration | Literal["shared_encoder"]
CONFIGURATIONS: tuple[PolicyConfiguration, ...] = get_args(PolicyConfiguration)
FEATURES: tuple[Feature, ...] = (*CONFIGURATIONS, "shared_encoder")
ALGORITHMS = ("ppo", "appo", "impala", "dqn", "sac", "a2c", "tqc")  # for any number of agents
MASKLESS = ("sac", "tqc", *OFFLINE)  # they know no illegal actions

_REPLAY = "its replay buffer keeps what every snapshot did, and RLlib samples all of that again and again"
_NO_CRITIC = "it learns the values of actions, and has no critic beside the policy that could see more than the agent"
_OWN_CRITICS = "its critics also see the action, and RLlib gives every policy its own"
_THREE_ENCODERS = "policy, critics and targets have encoders of their own, with optimizers of their own"

MISSING: Mapping[tuple[str, Feature], str] = {
    ("dqn", "self_play"): _REPLAY,
    ("sac", "self_play"): _REPLAY,
    ("dqn", "shared_value_function"): _NO_CRITIC,
    ("sac", "shared_value_function"): _OWN_CRITICS,
    ("sac", "shared_encoder"): _THREE_ENCODERS,
    ("tqc", "self_play"): _REPLAY,
    ("tqc", "shared_value_function"): _OWN_CRITICS,
    ("tqc", "shared_encoder"): _THREE_ENCODERS,
}
"""Unsupported combinations, with reasons. Everything else is supported."""


def is_supported(algorithm: str, feature: Feature) -> bool:
    return (algorithm, feature) not in MISSING


def check_support(
    algorithm: str, options: RllibOptions, roles: AgentRoles, spec: EnvSpec, *, learners: int = 1
) -> None:
    """Raise InputError if the algorithm cannot train what the casting says; `learners` are learner processes."""
    plan = roles.plan
    if plan.self_play:
        _check(algorithm, "self_play")
        check_bound(options, roles)
        if isinstance(options, AppoOptions | ImpalaOptions) and options.num_aggregator_actors_per_learner:
            raise InputError(
                "num_aggregator_actors_per_learner: in self-play the learner itself tells its own steps from those of "
                "its snapshots. Leave it out, or set it to 0."
            )
    if plan.central:
        _check(algorithm, "shared_value_function")
    if options.shared_encoder:
        _check(algorithm, "shared_encoder")
        if len(plan.names) == 1:
            raise InputError(
                f"shared_encoder: there is only one policy, '{plan.names[0]}', and none to share with. "
                "Leave it out, or use --policies independent."
            )
        _check_same_sight(roles, spec)
    if options.rl_module is not None and len(plan.names) > 1 and (plan.central or options.shared_encoder):
        part = "shared_encoder" if options.shared_encoder else "shared_value_function with an actor for each agent"
        raise InputError(
            f"rl_module={options.rl_module}: {part} shares a part of RLlib's own modules between policies, and of an "
            "own module it is not known which part that is. "
            + ("Leave one of them out." if options.shared_encoder else "Add shared_actor=true, or leave rl_module out.")
        )
    if learners > 1 and len(plan.names) > 1 and (plan.central or options.shared_encoder):
        raise InputError(
            f"num_learners={learners}: parts that policies share are trained by one learner. Set num_learners to 1"
            + (", or share the actor too: shared_actor=true." if plan.central else ".")
        )


def table() -> str:
    """Return the table of supported combinations for the docs, in Markdown."""
    rows = [
        "| algorithm | " + " | ".join(f"`{feature}`" for feature in FEATURES) + " |",
        "|---|" + "---|" * len(FEATURES),
    ]
    for algorithm in ALGORITHMS:
        said = ("yes" if is_supported(algorithm, feature) else "no" for feature in FEATURES)
        rows.append(f"| {algorithm} | " + " | ".join(said) + " |")
    why = [f"- {algorithm} without `{feature}`: {reason}." for (algorithm, feature), reason in MISSING.items()]
    return "\n".join([*rows, "", *why])


def no_masks(algorithm: str, env_id: str) -> InputError:
    return InputError(
        f"RLlib's {algorithm} knows no illegal actions, and {env_id} has some. "
        "Use --algo ppo, appo, impala, a2c or dqn."
    )


def check_same_masks(environment: EnvironmentConfig) -> None:
    """Raise InputError if only some stages of a curriculum have illegal actions, which an env tells after its reset."""
    masked = [_is_masked(environment, stage) for stage in range(len(environment.curriculum))]
    for stage, here in enumerate(masked):
        if here != masked[0]:
            some, none = (stage + 1, 1) if here else (1, stage + 1)
            raise InputError(
                f"environment.curriculum: stage {some} has illegal actions (the env gives action masks), and stage "
                f"{none} has none. RLlib's networks take masks in all stages or in none: let the env give a mask in "
                "each, of ones where every action is legal; or use --worker native."
            )


def _is_masked(environment: EnvironmentConfig, stage: int) -> bool:
    try:
        return has_illegal_actions(environment.at_stage(stage))
    except InputError as error:
        raise type(error)(f"environment.curriculum, stage {stage + 1}: {error}") from error


def no_central_pictures() -> InputError:
    return InputError(
        "shared_value_function lays all agents' observations side by side, and pictures are too wide for that. "
        "Use --policies parameter_sharing or independent."
    )


def _check(algorithm: str, feature: Feature) -> None:
    reason = MISSING.get((algorithm, feature))
    if reason is None:
        return
    able = [name for name in ALGORITHMS if is_supported(name, feature)]
    rest = [name for name in FEATURES if is_supported(algorithm, name) and name in CONFIGURATIONS]
    raise InputError(
        f"RLlib's {algorithm} cannot train with {feature}: {reason}. "
        f"Use --algo {_either(able)}, or leave {algorithm} and use --policies {_either(rest)}."
    )


def _check_same_sight(roles: AgentRoles, spec: EnvSpec) -> None:
    first, *others = roles.learners
    for other in others:
        if row_code(spec.observation_spaces[other]).width != row_code(spec.observation_spaces[first]).width:
            raise InputError(
                f"shared_encoder: {first} and {other} see different things, which no encoder takes both. Leave it out."
            )


def _either(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
