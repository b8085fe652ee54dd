"""Tabular training by several processes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeVar

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig, ResourcesConfig
from mosaic.core.errors import InputError
from mosaic.core.machine import available_cores
from mosaic.envs.compiled.registry import find_twin
from mosaic.learners.tabular.options import TabularOptions
from mosaic.workers.ray_record import StartRay

if TYPE_CHECKING:  # modules that import numba are imported when a run begins
    from mosaic.learners.tabular.training.twin import Twin
    from mosaic.runtimes.bookkeeping import SpreadTraining
    from mosaic.runtimes.mpi.tabular import MpiMode

T = TypeVar("T")
_CPU_PARTS = 10_000  # resolution at which Ray counts CPUs


def make_spread_training(
    config: RunConfig,
    twin: Twin,
    algorithm: str,
    options: TabularOptions,
    opponent: Literal["self", "random"],
    merge_every: int,
    mpi_mode: MpiMode,
    start_ray: StartRay,
) -> SpreadTraining:
    """Return a training with the runtime mpi or ray, or with parallel if the env is stepped in Python."""
    from mosaic.learners.tabular.training.twin import SteppedEnv

    resources, number = config.resources, config.resources.env_runners
    what = f"{algorithm} on {describe_arrays(config.environment)}"
    if isinstance(twin, SteppedEnv):
        what = f"{algorithm} in {config.environment.id}"
        if resources.runtime == "parallel":
            from mosaic.runtimes.processes import ProcessTraining

            print(f"{what}, {number} processes")
            return ProcessTraining(twin, algorithm, options, config.seed, processes=number, merge_every=merge_every)
    if resources.runtime == "mpi":
        from mosaic.runtimes.mpi.tabular import MpiTraining

        print(f"{what}, {number} MPI ranks, mode {mpi_mode}")
        return MpiTraining(
            twin, algorithm, options, config.seed, opponent, ranks=number, merge_every=merge_every, mode=mpi_mode
        )
    from mosaic.runtimes.ray.tabular import RayTraining

    print(f"{what}, {number} Ray actors {f'at {resources.ray_address}' if resources.ray_address else 'here'}")
    cpus = number if resources.ray_address else min(number, available_cores())
    start_ray(cpus, resources.ray_address)
    share = math.floor(cpus / number * _CPU_PARTS) / _CPU_PARTS  # actors share cores if there are fewer
    return RayTraining(
        twin, algorithm, options, config.seed, opponent, actors=number, merge_every=merge_every, cpus_per_actor=share
    )


def describe_arrays(environment: EnvironmentConfig) -> str:
    """Describe what a compiled loop runs on: a twin written for the env, or arrays compiled from the env."""
    made = "arrays compiled from" if find_twin(environment) is None else "the compiled twin of"
    return f"{made} {environment.id}"


def check_workers(resources: ResourcesConfig) -> None:
    """Raise InputError if several workers, or a cluster, are requested with a runtime that does not have them."""
    runtime, number = resources.runtime or "single", resources.num_env_runners or 1
    if runtime == "single" and number > 1:
        raise InputError(
            f"--num-env-runners {number} needs a runtime with several learners, and it is single. "
            "Type --runtime parallel (threads), ray or mpi."
        )
    if resources.ray_address is not None and runtime != "ray":
        raise InputError(f"--ray-address {resources.ray_address} needs the runtime ray. Type: --runtime ray")


def check_mpi_mode(config: RunConfig, mpi_mode: MpiMode) -> None:
    runtime = config.resources.runtime or "single"
    if mpi_mode != "allreduce" and runtime != "mpi":
        raise InputError(
            f"mpi_mode={mpi_mode} is for the runtime mpi, not {runtime}. Type: --set resources.runtime=mpi"
        )


@contextmanager
def ended_after(training: T) -> Iterator[T]:
    """Close a training on exit, so that none of its processes are left."""
    from mosaic.learners.tabular.training.multi_agent import MultiAgentTraining
    from mosaic.runtimes.bookkeeping import SpreadTraining

    try:
        yield training
    finally:
        if isinstance(training, SpreadTraining | MultiAgentTraining):
            training.close()
