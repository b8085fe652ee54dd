"""Which engine and how many envs, steps and threads a PPO run gets, and what cannot be had.

All of it is known before anything is made, so that bad input is refused before there is a run.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Literal, NamedTuple, TypeAlias

from mosaic.config.environment import EnvironmentConfig
from mosaic.config.run import RunConfig
from mosaic.core.code import load_code
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.envs.env import EnvSpec
from mosaic.envs.rows import RowCode, row_code
from mosaic.learners.casting import Casting
from mosaic.learners.opponents import Guest, Opponents, check_guests, enough_envs, guests, opponents_of
from mosaic.learners.ppo_options import PpoOptions

EngineName: TypeAlias = Literal["fused", "torch"]
COMPILED_ENVS, PYTHON_ENVS = 32, 8
COMPILED_STEPS, PYTHON_STEPS = 64, 128
_GIGABYTE = 1e9
_ROWS_PER_THREAD = 4096  # below so many decisions an iteration, meeting costs more than a second thread gives


class Equipment(NamedTuple):
    engine: EngineName
    why: str
    compiled: bool  # envs are stepped in machine code
    envs: int
    steps: int  # of each env in one rollout
    threads: int
    seats: tuple[Guest, ...]


def equip(config: RunConfig, options: PpoOptions, casting: Casting, spec: EnvSpec, opponents: Opponents) -> Equipment:
    """Raises InputError where options, env and agents do not fit."""
    engine, why = pick_engine(options, [row_code(spec.observation_spaces[agent]) for agent in casting.learners])
    controlled = bool(casting.played or opponents.foreign)
    compiled = not controlled and has_twin(config.environment)
    chairs = len(casting.learners)
    usual = COMPILED_ENVS if compiled else PYTHON_ENVS
    envs = config.environment.num_envs or enough_envs(opponents, options.selfplay_share, chairs, usual)
    check_processes(options.env_processes, envs, config.environment, compiled=compiled)
    seats = guests(opponents, envs, options.selfplay_share, chairs)
    check_guests(opponents, seats, envs)
    steps = options.n_steps or (COMPILED_STEPS if compiled else PYTHON_STEPS)
    threads = _threads(options, engine, compiled, envs, steps * chairs)
    return Equipment(engine, why, compiled, envs, steps, threads, seats)


def check_ppo(config: RunConfig, options: PpoOptions, casting: Casting, spec: EnvSpec) -> Opponents:
    """Raises InputError for all that can be known; machine code is loaded only where something depends on it."""
    opponents = opponents_of(options, casting, spec)
    engine, why = pick_engine(options, [row_code(spec.observation_spaces[agent]) for agent in casting.learners])
    if engine == "torch":
        _check_torch(options, why)
    if engine == "torch" or opponents.foreign or options.threads not in (None, 1) or options.env_processes:
        _check_memory(equip(config, options, casting, spec, opponents), casting, spec)
    return opponents


def pick_engine(options: PpoOptions, rows: Sequence[RowCode]) -> tuple[EngineName, str]:
    """fused wherever it can: it is an order of magnitude faster on small nets."""
    pictures = any(part.picture for code in rows for part in code.parts)
    needs = [
        reason
        for reason, needed in (
            ("it sees pictures", pictures),
            ("it has memory", options.memory is not None),
            ("it has a network of its own", options.network is not None),
            ("it has an extra loss", options.extra_loss is not None),
            ("device=cuda", options.device == "cuda"),
            ("compile=true", options.compile),
        )
        if needed
    ]
    if options.engine == "fused" and needs:
        raise InputError(f"The fused engine cannot do this: {', '.join(needs)}. Use engine=torch, or leave it out.")
    if options.engine == "torch":
        return "torch", "asked for"
    if needs:
        return "torch", needs[0]
    return "fused", "asked for" if options.engine == "fused" else "a plain net"


def _check_torch(options: PpoOptions, why: str) -> None:
    if find_spec("torch") is None:
        raise MissingExtraError(f"The torch engine ({why}) needs torch: pip install 'mosaic-rl[torch]'")
    if options.device == "cuda":
        from mosaic.learners.torch_engine import checked_device

        checked_device(options.device)
    for code in (options.network, options.extra_loss):
        if code is not None:
            load_code(code)


def _check_memory(equipment: Equipment, casting: Casting, spec: EnvSpec) -> None:
    """Of what is seen in a rollout: with pictures it soon is more than a machine has."""
    envs, steps = equipment.envs, equipment.steps
    agents = 1 if spec.facts.turn_based else len(casting.learners)
    width = max(row_code(spec.observation_spaces[agent]).width for agent in casting.learners)
    needed = 4 * width * agents * envs * steps
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if needed > there:
        raise InputError(
            f"The observations of {steps} steps of {envs} envs take {needed / _GIGABYTE:.1f} GB, and this "
            f"machine has {there / _GIGABYTE:.1f} GB. Set n_steps or environment.num_envs lower, or make what they "
            "see smaller."
        )


def check_processes(processes: int, envs: int, environment: EnvironmentConfig, *, compiled: bool) -> None:
    if processes and compiled:
        raise InputError(
            f"env_processes is for envs that Python steps; {environment.id} has a compiled twin, which needs none. "
            "Leave it out."
        )
    if processes > envs:
        raise InputError(f"{envs} envs cannot be shared by {processes} processes: set env_processes to {envs} or less.")


def has_twin(environment: EnvironmentConfig) -> bool:
    from mosaic.envs.compiled.kernels import find_kernel

    return find_kernel(environment) is not None


def _threads(options: PpoOptions, engine: EngineName, compiled: bool, envs: int, rows_per_env: int) -> int:
    cores = len(os.sched_getaffinity(0))
    if not compiled or engine == "torch":
        if options.threads not in (None, 1):
            raise InputError(
                "threads needs the fused engine; torch has one learner, which shares out its own work."
                if compiled
                else "threads needs an env with a compiled twin; Python envs take env_processes=N instead."
            )
        return 1
    if options.threads is not None:
        if options.threads > envs:
            raise InputError(f"{options.threads} threads cannot share {envs} envs. Set environment.num_envs higher.")
        return options.threads
    return max(1, min(cores, envs * rows_per_env // _ROWS_PER_THREAD)) if options.n_epochs <= 4 else 1
