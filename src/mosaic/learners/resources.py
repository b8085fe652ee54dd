"""Resources of a native run: threads, env processes and a device from `resources`."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar, cast

from mosaic.config.run import RunConfig
from mosaic.config.sections import ResourcesConfig
from mosaic.core.errors import InputError
from mosaic.envs.env import EnvSpec
from mosaic.learners.actor_critic.options import ActorCriticOptions, SacOptions
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.alphazero.options import AlphaZeroOptions
from mosaic.learners.bc.options import BcOptions, DaggerOptions
from mosaic.learners.dqn.options import CqlOptions, DqnOptions, QOptions
from mosaic.learners.opponents import opponents_of
from mosaic.learners.ppo.hardware import is_compiled
from mosaic.learners.ppo.options import PpoOptions

NativeOptions: TypeAlias = PpoOptions | QOptions | ActorCriticOptions | BcOptions | DaggerOptions | AlphaZeroOptions
Given = TypeVar("Given", bound=NativeOptions)


def meet_resources(options: Given, config: RunConfig, roles: AgentRoles, spec: EnvSpec) -> Given:
    """Return options that meet the resources of the run, or raise InputError; idempotent."""
    resources = config.resources
    if not (resources.num_env_runners or resources.runtime or resources.num_gpus):
        return options
    foreign = opponents_of(options, roles, spec).foreign if isinstance(options, PpoOptions) else ()
    compiled = not roles.played and not foreign and is_compiled(config.environment)
    return with_resources(options, resources, compiled=compiled)


def with_resources(options: Given, resources: ResourcesConfig, *, compiled: bool) -> Given:
    """Return options that meet the resources, or raise InputError.

    `num_env_runners` counts what steps envs in parallel: threads with a learner each where the env has a compiled twin,
    else processes; one of them is this process itself. `num_gpus` is 0 or 1.
    """
    chosen: dict[str, Any] = {}
    number = _number(resources)
    if number is not None:
        name = "threads" if compiled else "env_processes"
        met = _met(options, name, number)
        if met is not None:
            chosen[name] = met
    if resources.num_gpus:
        chosen["device"] = _device(options, resources.num_gpus)
    return cast(Given, options.model_copy(update=chosen))


def _number(resources: ResourcesConfig) -> int | None:
    """Return the requested number of env runners; None: as in the options."""
    runtime, number = resources.runtime, resources.num_env_runners
    if runtime in ("ray", "mpi"):
        raise InputError(
            f"The worker native trains on one machine: the runtime is single or parallel, not {runtime}. "
            "Leave --runtime out, or train on Ray: --worker rllib"
        )
    if runtime == "single" and number not in (None, 1):
        raise InputError(
            f"The runtime single has one env runner, and --num-env-runners is {number}. Type: --runtime parallel"
        )
    if runtime == "parallel" and number == 1:
        raise InputError(
            "The runtime parallel has several env runners, and --num-env-runners is 1. Type: --runtime single"
        )
    if runtime == "single":
        return 1
    return resources.env_runners if runtime == "parallel" else number


def _met(options: NativeOptions, name: str, number: int) -> int | None:
    """Return the option's value for this many env runners; None where it already has it."""
    if isinstance(options, BcOptions | DaggerOptions | CqlOptions):
        return None  # they have one env or none: more env runners are refused by their own checks
    if name == "threads" and isinstance(options, DqnOptions | ActorCriticOptions):
        if number > 1:
            raise InputError(
                f"{_title(options)} steps a compiled env in one thread, but --num-env-runners is {number}. Leave it "
                "out, or use PPO: --algo ppo"
            )
        return None
    said = getattr(options, name)
    default = type(options).model_fields[name].default
    wanted = 0 if name == "env_processes" and number == 1 else number
    if said not in (default, wanted):
        raise InputError(
            f"resources ask for {number} env runners, and training.params.{name} is {said}. Leave one of them out."
        )
    return wanted


def _title(options: NativeOptions) -> str:
    if isinstance(options, AlphaZeroOptions):
        return "AlphaZero"
    return "DQN" if isinstance(options, QOptions) else "SAC" if isinstance(options, SacOptions) else "TD3"


def _device(options: NativeOptions, gpus: float) -> str:
    if gpus != 1:
        raise InputError(
            f"The worker native learns on one GPU or none, and resources.num_gpus is {gpus:g}. "
            "Type: --set resources.num_gpus=1. RLlib can use several: --worker rllib"
        )
    if isinstance(options, QOptions | ActorCriticOptions | AlphaZeroOptions):
        raise InputError(
            f"Mosaic's {_title(options)} learns on the CPU, and resources.num_gpus is 1. Leave it out, or use "
            "--algo ppo."
        )
    if options.device == "cpu":
        raise InputError("resources.num_gpus is 1, and training.params.device is cpu. Leave one of them out.")
    return "cuda"
