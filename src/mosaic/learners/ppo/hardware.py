"""Engine, envs, steps and threads of a PPO run, and checks of what is possible.

All of it follows from the configuration and the env, never from the number of cores: it affects results. It is known
before anything is made, so that bad input is rejected before there is a run and the values are stored with the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.machine import check_memory
from mosaic.core.user_code import load_code
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import RowCode, row_code
from mosaic.learners.agent_roles import AgentRoles
from mosaic.learners.network_options import NetworkOptions
from mosaic.learners.opponents import Guest, Opponents, assign_guests, check_guests, enough_envs, opponents_of
from mosaic.learners.ppo.options import PpoOptions
from mosaic.models.architecture import FUSED_MEMORIES
from mosaic.models.packed_rows import FLOAT_BYTES, RowPacking, row_bytes, row_packing

EngineName: TypeAlias = Literal["fused", "torch"]
DEFAULT_ENVS = 8
_LARGE_ROW = 20_000  # observation size above which torch gains from several threads; below, they spin
_LARGE_ROW_THREADS = 4
_SNAPSHOTS_IN_A_RUN = 20
_ROW_NUMBERS = 12  # float32 per row besides observations: action, value, advantage and the like; an upper bound
_OPEN_END_STEPS = 2_000_000  # assumed length of a run of unknown length, over which snapshots are spread


class Equipment(NamedTuple):
    engine: EngineName
    why: str
    compiled: bool  # envs are stepped in machine code
    envs: int
    steps: int  # of each env in one rollout
    threads: int
    guests: tuple[Guest, ...]
    on_device: bool = False  # envs are tensors on the learner's device


def equip(
    config: RunConfig,
    options: PpoOptions,
    roles: AgentRoles,
    spec: EnvSpec,
    opponents: Opponents,
    own: Sequence[PpoOptions] = (),
) -> Equipment:
    """Return the equipment; raise InputError where options, env and agents do not fit.

    `own` are the options of policies that have their own.
    """
    engine, why = pick_engine(options, [row_code(spec.observation_spaces[agent]) for agent in roles.learners], own)
    controlled = bool(roles.played or opponents.foreign)
    compiled = not controlled and is_compiled(config.environment)
    envs = _envs(config, options, roles, opponents)
    check_processes(options.env_processes, envs, config.environment, compiled=compiled)
    guests = assign_guests(opponents, envs, options.selfplay_share, len(roles.learners))
    check_guests(opponents, guests, envs)
    _check_threads(options, engine, compiled, envs)
    on_device = engine == "torch" and steps_on_device(config, options, roles, opponents, own)
    return Equipment(engine, why, compiled, envs, options.n_steps, options.threads, guests, on_device)


def steps_on_device(
    config: RunConfig, options: PpoOptions, roles: AgentRoles, opponents: Opponents, own: Sequence[PpoOptions]
) -> bool:
    """Return whether envs step on the learner's device; raise InputError if it was requested but is not possible."""
    if options.env_device == "cpu":
        return False
    asked = options.env_device == "learner"
    if not asked and options.device != "cuda" and not (options.device == "auto" and cuda_is_available()):
        return False
    obstacle = _device_obstacle(config, roles, opponents, (options, *own))
    if obstacle is not None and asked:
        raise InputError(f"env_device=learner: {obstacle}. Leave it out: envs are then stepped on the CPU.")
    return obstacle is None


def _device_obstacle(
    config: RunConfig, roles: AgentRoles, opponents: Opponents, each: Sequence[PpoOptions]
) -> str | None:
    """Return why envs cannot be stepped on the learner's device; None if they can."""
    from mosaic.envs.tensors.rules import find_rules, known_envs

    plan = roles.plan
    for reason, found in (
        ("memory needs its states between steps", any(one.memory is not None for one in each)),
        ("an extra loss is computed from rows of the CPU", any(one.extra_loss is not None for one in each)),
        ("kl_anchor compares with another network", any(one.kl_anchor for one in each)),
        ("target_kl ends an update early", any(one.target_kl is not None for one in each)),
        ("observations or rewards are normalised", any(_normalizes(one) for one in each)),
        ("a centralised critic sees all agents", plan.central),
        ("agents have fixed policies", bool(roles.played or roles.ages)),
        ("opponents are named", bool(opponents.foreign or opponents.bound)),
        ("policies change from episode to episode", roles.episodes is not None),
        ("agents of one policy are not next to each other", not _neighbours(plan.policy_of)),
    ):
        if found:
            return reason
    if find_rules(config.environment) is None:
        return (
            f"{config.environment.id} with these options has no form as tensors; these have: {', '.join(known_envs())}"
        )
    return None


def _normalizes(options: PpoOptions) -> bool:
    return options.normalize_observations or options.normalize_rewards


def _neighbours(policy_of: Sequence[int]) -> bool:
    """Return whether the agents of each policy follow one another."""
    return sum(mine != after for mine, after in pairwise(policy_of)) == len(set(policy_of)) - 1


def settle_ppo(
    config: RunConfig,
    options: PpoOptions,
    roles: AgentRoles,
    spec: EnvSpec,
    opponents: Opponents,
    own: Sequence[PpoOptions] = (),
) -> tuple[RunConfig, PpoOptions]:
    """Return configuration and options with a value for every setting left to Mosaic."""
    rows = [row_code(spec.observation_spaces[agent]) for agent in roles.learners]
    engine, _ = pick_engine(options, rows, own)
    chosen: dict[str, Any] = {"engine": engine}
    if options.device == "auto":
        chosen["device"] = "cuda" if engine == "torch" and cuda_is_available() else "cpu"
    if engine == "torch" and options.torch_threads is None:
        chosen["torch_threads"] = usual_torch_threads(max(code.width for code in rows))
    if roles.plan.self_play and options.snapshot_every_steps is None:
        chosen["snapshot_every_steps"] = usual_snapshot_steps(config.training.total_timesteps)
    environment = config.environment.model_copy(update={"num_envs": _envs(config, options, roles, opponents)})
    return config.model_copy(update={"environment": environment}), options.model_copy(update=chosen)


def _envs(config: RunConfig, options: PpoOptions, roles: AgentRoles, opponents: Opponents) -> int:
    usual = enough_envs(opponents, options.selfplay_share, len(roles.learners), DEFAULT_ENVS)
    return config.environment.num_envs or max(usual, options.threads)


def usual_torch_threads(width: int) -> int:
    return 1 if width < _LARGE_ROW else _LARGE_ROW_THREADS


def usual_snapshot_steps(total_timesteps: int | None) -> int:
    return max(1, (total_timesteps or _OPEN_END_STEPS) // _SNAPSHOTS_IN_A_RUN)


def cuda_is_available() -> bool:
    """Return whether CUDA can be used; torch, which takes seconds to import, is only imported if there is a driver."""
    if not any(Path(path).exists() for path in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")):
        return False
    import torch

    return bool(torch.cuda.is_available())


def check_ppo(
    config: RunConfig, options: PpoOptions, roles: AgentRoles, spec: EnvSpec, own: Sequence[PpoOptions] = ()
) -> Opponents:
    """Raise InputError for all that is known ahead; machine code is loaded only where something depends on it."""
    opponents = opponents_of(options, roles, spec)
    engine, why = pick_engine(options, [row_code(spec.observation_spaces[agent]) for agent in roles.learners], own)
    if options.network is not None and roles.plan.shares_critic:
        raise InputError(
            f"network={options.network}: with an actor for each agent their networks share the critic, and of a custom "
            "network it is not known which part is the critic. Add shared_actor=true, or leave network out."
        )
    if roles.plan.shares_critic:
        _check_shared_critic(options, own)
    for each in (options, *own) if engine == "torch" else ():
        check_torch(each, why)
    if engine == "torch" or opponents.foreign or options.threads > 1 or options.env_processes:
        equip(config, options, roles, spec, opponents, own)
    _check_discounts(options, own)
    for each in (options, *own):
        _check_anchor(config, each)
    check_rollout_memory(config, options, roles, spec, opponents)
    return opponents


def pick_engine(
    options: NetworkOptions, rows: Sequence[RowCode], own: Sequence[NetworkOptions] = ()
) -> tuple[EngineName, str]:
    """Choose the fused engine where possible: it is an order of magnitude faster on small nets.

    All policies have the same engine: torch if one of `own`, the options of single policies, needs it.
    """
    pictures, each = any(part.picture for code in rows for part in code.parts), (options, *own)
    needs = [
        reason
        for reason, needed in (
            ("pictures", pictures),
            ("an LSTM", any(one.memory not in FUSED_MEMORIES for one in each)),
            ("a custom network", any(one.network is not None for one in each)),
            ("an extra loss", any(isinstance(one, PpoOptions) and one.extra_loss is not None for one in each)),
            ("device=cuda", options.device == "cuda"),
            ("compile=true", options.compile),
            ("env_device=learner", isinstance(options, PpoOptions) and options.env_device == "learner"),
        )
        if needed
    ]
    if options.engine == "fused" and needs:
        raise InputError(f"The fused engine does not support {', '.join(needs)}. Use engine=torch, or leave it out.")
    if needs:
        return "torch", needs[0]
    if options.engine == "torch":
        return "torch", "asked for"
    return "fused", "a plain net" if all(one.memory is None for one in each) else "dense layers and a GRU"


_SHARED = (
    "n_epochs",
    "target_kl",
    "hidden",
    "critic_hidden",
    "activation",
    "share_layers",
    "memory",
    "memory_size",
    "network",
)


def _check_shared_critic(options: PpoOptions, own: Sequence[PpoOptions]) -> None:
    """Raise InputError if policies that train one critic together differ in its shape or in their passes."""
    for each in own:
        for name in _SHARED:
            if getattr(each, name) != getattr(options, name):
                raise InputError(
                    f"training.policies: {name} cannot differ between policies that share a critic: they train it "
                    "together. Leave it out, or add shared_actor=true or --policies independent."
                )


def _check_discounts(options: PpoOptions, own: Sequence[PpoOptions]) -> None:
    if options.normalize_rewards and any(one.gamma != options.gamma for one in own):
        raise InputError(
            "normalize_rewards scales by the deviation of discounted returns, with one gamma for the whole run, and "
            "training.policies has several. Leave one of them out."
        )


def _check_anchor(config: RunConfig, options: PpoOptions) -> None:
    """Raise InputError where the KL divergence from the initial policy has no meaning."""
    if not options.kl_anchor:
        return
    asked = f"kl_anchor={options.kl_anchor:g}"
    if config.training.init is None:
        raise InputError(
            f"{asked} holds the policy near the one that training starts from, and this run starts with new weights. "
            "Add --init run:ID, or leave it out."
        )
    if options.normalize_observations:
        raise InputError(
            f"{asked}: the normalization of observations changes while training, and the policy it is compared with "
            "was trained with another one. Leave out kl_anchor or normalize_observations."
        )
    if options.memory is not None:
        raise InputError(f"{asked} needs a network without memory. Leave out kl_anchor or memory.")


def check_torch(options: NetworkOptions, why: str) -> None:
    """Raise InputError or MissingExtraError if the torch engine cannot compute the network here."""
    if find_spec("torch") is None:
        raise MissingExtraError(f"The torch engine ({why}) needs torch: pip install 'mosaic-rl[torch]'")
    if options.device == "cuda":
        from mosaic.learners.engines.torch import checked_device

        checked_device(options.device)
    for code in (options.network, options.extra_loss if isinstance(options, PpoOptions) else None):
        if code is not None:
            load_code(code)


def check_rollout_memory(
    config: RunConfig, options: PpoOptions, roles: AgentRoles, spec: EnvSpec, opponents: Opponents
) -> None:
    """Raise InputError where a rollout's observations exceed the memory, as images easily do."""
    codes = [row_code(spec.observation_spaces[agent]) for agent in roles.learners]
    envs, agents, central = _envs(config, options, roles, opponents), len(codes), roles.plan.central
    needed = rollout_bytes(
        options.n_steps,
        envs if spec.facts.turn_based else envs * agents,
        agents,
        max(code.width for code in codes),
        None if options.normalize_observations else row_packing(codes),
        central=central,
        batch_size=options.batch_size,
    )
    check_memory(
        f"A rollout of {options.n_steps:,} steps of {envs:,} envs takes",
        needed,
        "Decrease n_steps, batch_size or environment.num_envs, or make observations smaller (with a wrapper)"
        + (", or leave out --policies shared_value_function, whose critic sees all agents." if central else "."),
        limit_mb=config.resources.max_memory_mb,
    )


def rollout_bytes(
    steps: int, slots: int, agents: int, width: int, packing: RowPacking | None, *, central: bool, batch_size: int
) -> int:
    """Return the bytes of a rollout: its rows, the envs' newest observations, and one minibatch as float32.

    With a centralised critic every row also holds the observations of all agents.
    """
    rows, views = steps * slots, 1 + (agents if central else 0)
    stored = rows * (views * row_bytes(width, packing) + FLOAT_BYTES * _ROW_NUMBERS)
    floats = slots * (1 + views) + min(batch_size, rows) * views
    return stored + floats * FLOAT_BYTES * width


def check_processes(processes: int, envs: int, environment: EnvironmentConfig, *, compiled: bool) -> None:
    if processes and compiled:
        raise InputError(
            f"env_processes is for envs that Python steps; {environment.id} has a compiled twin, "
            "which does not use them. Leave it out."
        )
    if processes > envs:
        raise InputError(f"{envs} envs cannot be shared by {processes} processes: set env_processes to {envs} or less.")


def is_compiled(environment: EnvironmentConfig) -> bool:
    from mosaic.envs.compiled.registry import find_kernel

    return find_kernel(environment) is not None


def _check_threads(options: PpoOptions, engine: EngineName, compiled: bool, envs: int) -> None:
    threads = options.threads
    if threads > 1 and options.memory is not None:
        raise InputError("threads needs a network without memory. Leave one of them out.")
    if threads > 1 and (not compiled or engine == "torch"):
        raise InputError(
            "threads needs the fused engine; torch has one learner: use torch_threads=N instead."
            if compiled
            else "threads needs an env with a compiled twin; for Python envs use env_processes=N instead."
        )
    if threads > envs:
        raise InputError(f"{threads} threads cannot share {envs} envs. Increase environment.num_envs.")
