"""Checks of what is possible in envs of other programs, before anything is built."""

from __future__ import annotations

from collections.abc import Sequence

from mosaic.config.run import RunConfig
from mosaic.config.sections import EvaluationConfig
from mosaic.core.errors import InputError
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.network_options import NetworkOptions
from mosaic.learners.ppo.options import PpoOptions


def check_external(
    config: RunConfig, options: NetworkOptions | DqnOptions, roles: AgentRoles, own: Sequence[PpoOptions] = ()
) -> None:
    """Raise InputError for settings that need envs which Mosaic makes and steps itself.

    `own` are the options of policies that have their own.
    """
    env_id = config.environment.id
    if config.evaluation != EvaluationConfig():
        raise InputError(
            f"evaluation: {env_id} runs in another program, and Mosaic cannot make one to evaluate in. Leave it out; "
            "the mean return of training episodes is reported, and a policy can be evaluated later in an env with the "
            "same spaces: mosaic evaluate ENV --agent NAME=run:latest"
        )
    if config.environment.curriculum:
        raise InputError(f"environment.curriculum: the program of {env_id} decides how hard it is. Leave it out.")
    resources = config.resources
    if resources.num_env_runners not in (None, 1) or resources.runtime not in (None, "single"):
        raise InputError(
            f"resources: {env_id} is stepped by the programs that connect, any number of them, and one process learns. "
            "Leave --num-env-runners and --runtime out, and start more programs."
        )
    _check_policies(env_id, roles)
    for name in ("threads", "env_processes"):
        field = type(options).model_fields.get(name)
        if field is not None and getattr(options, name) != field.default:
            raise InputError(
                f"training.params.{name}={getattr(options, name)}: {env_id} is stepped by the programs that connect, "
                "and one thread learns. Leave it out."
            )
    for each in (options, *own):
        if isinstance(each, NetworkOptions) and each.memory is not None:
            raise InputError(
                f"memory={each.memory}: episodes of {env_id} continue while the network learns, and what it remembered "
                "would be of other weights. Leave it out; the program can send the last observations together."
            )


def _check_policies(env_id: str, roles: AgentRoles) -> None:
    plan = roles.plan
    if plan.self_play or roles.ages:
        raise InputError(
            f"Self-play: {env_id} is stepped by its own program, and a league needs envs in which Mosaic chooses the "
            "opponents. Type --policies parameter_sharing (one policy for all agents), or give other agents a fixed "
            "policy: --agent NAME=run:ID"
        )
    if plan.central:
        raise InputError(
            f"shared_value_function: a critic that sees all agents needs all observations of a step together, and "
            f"programs of {env_id} may send them one by one. Type --policies parameter_sharing or independent."
        )
