"""Placement of runners, learners, CPUs and GPUs: what is requested against what is available."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from mosaic.config.sections import ResourcesConfig
from mosaic.core.errors import InputError
from mosaic.core.machine import available_cores
from mosaic.workers.rllib.config.options import RllibOptions

_TINY = 1e-6  # shares of a GPU are sums of rounded numbers


class Need(NamedTuple):
    """Resources of one process. GPUs are a fraction of one, or whole ones: Ray allocates nothing else."""

    gpus: float
    cpus: int


class Node(NamedTuple):
    """Free resources of one machine."""

    cpus: int
    gpus: float


def packs(needs: Iterable[Need], nodes: Iterable[Node]) -> bool:
    """Return whether processes fit onto nodes: the largest first, each on the first node with room."""
    rooms = [_Room(node.cpus, _devices(node.gpus)) for node in nodes]
    return all(any(room.take(need) for room in rooms) for need in sorted(needs, reverse=True))


@dataclass(slots=True)
class _Room:
    cpus: int
    devices: list[float]  # free share of each GPU

    def take(self, need: Need) -> bool:
        left = _without(need.gpus, self.devices)
        if left is None or need.cpus > self.cpus:
            return False
        self.cpus, self.devices = self.cpus - need.cpus, left
        return True


def _devices(gpus: float) -> list[float]:
    """Return the free share of each GPU, taking any fraction to be of a single one."""
    return [1.0] * int(gpus) + [gpus % 1]


def _without(gpus: float, devices: list[float]) -> list[float] | None:
    """Return the devices after an allocation, or None if they have no room."""
    if gpus > 1 and gpus % 1:
        return None
    left = sorted(devices)  # the fullest that fits comes first
    for part in [1.0] * int(gpus) or [gpus]:
        place = next((k for k, free in enumerate(left) if free >= part - _TINY), None)
        if place is None:
            return None
        left[place] -= part
    return left


@dataclass(frozen=True, slots=True)
class Asked:
    runners: int
    cpus_per_runner: int
    gpus_per_runner: float
    learners: int | None  # None: as many as fit
    cpus_per_learner: int | None
    gpus: float  # for learning, all learners together
    aggregators: int  # for each learner
    apart: bool  # the learner should have its own process
    firm: bool  # the number of runners was configured; otherwise it is reduced to what fits


@dataclass(frozen=True, slots=True)
class AvailableResources:
    cpus: int
    gpus: float
    name: str = "this machine"
    nodes: tuple[Node, ...] = ()  # of a cluster: free resources of each

    @property
    def rooms(self) -> tuple[Node, ...]:
        return self.nodes or (Node(self.cpus, self.gpus),)


@dataclass(frozen=True, slots=True)
class Placement:
    runners: int  # 0: the envs are stepped in the main process
    cpus_per_runner: int
    gpus_per_runner: float
    learners: int  # 0: learning happens in the main process
    cpus_per_learner: int
    gpus_per_learner: float
    aggregators: int
    said: tuple[str, ...] = ()  # what was reduced, as messages for the user

    @property
    def cpus(self) -> int:
        """CPUs that Ray needs for it."""
        learning = _for_learning(self.learners, self.cpus_per_learner, self.aggregators)
        return self.runners * self.cpus_per_runner + learning

    @property
    def gpus(self) -> float:
        return self.runners * self.gpus_per_runner + self.learners * self.gpus_per_learner

    @property
    def needs(self) -> list[Need]:
        """Needs of each process that Ray must place."""
        return [
            *[Need(self.gpus_per_runner, self.cpus_per_runner)] * self.runners,
            *[Need(self.gpus_per_learner, self.cpus_per_learner)] * self.learners,
            *[Need(0.0, 1)] * (max(1, self.learners) * self.aggregators),
        ]


def asked_for(resources: ResourcesConfig, options: RllibOptions, *, apart: bool) -> Asked:
    own = options.num_env_runners
    return Asked(
        runners=resources.env_runners if own is None else own,
        cpus_per_runner=resources.num_cpus,
        gpus_per_runner=options.num_gpus_per_env_runner,
        learners=options.num_learners,
        cpus_per_learner=options.num_cpus_per_learner,
        gpus=resources.num_gpus,
        aggregators=getattr(options, "num_aggregator_actors_per_learner", 0),
        apart=apart,
        firm=own is not None or resources.num_env_runners is not None,
    )


def check_said_once(resources: ResourcesConfig, options: RllibOptions) -> None:
    said, own = resources.num_env_runners, options.num_env_runners
    if said is not None and own is not None and said != own:
        raise InputError(
            f"resources.num_env_runners={said} and training.params.num_env_runners={own} both say how many env runners "
            f"there are. Leave one of them out. On resume: --set training.params.num_env_runners={said}"
        )


def place(asked: Asked, machine: AvailableResources) -> Placement:
    """Return the placement, or raise InputError if a demand cannot be met: Ray would silently wait forever."""
    learners, cpus_per_learner = _learners(asked, machine)
    learning = _for_learning(learners, cpus_per_learner, asked.aggregators)
    gpus_per_learner = asked.gpus / learners if learners else 0.0
    room = machine.cpus - learning
    if room < 0:
        raise InputError(
            f"{_count(learners, 'learner')} with {_count(learning, 'CPU')} in all cannot be placed: {machine.name} has "
            f"{_count(machine.cpus, 'CPU')}. Set num_learners, num_cpus_per_learner or "
            "num_aggregator_actors_per_learner lower."
        )
    runners, said = asked.runners, []
    if asked.firm:
        if runners * asked.cpus_per_runner > room:
            raise InputError(_too_many(asked, machine, learning, room // asked.cpus_per_runner))
    else:
        fits = max(0, (machine.cpus - max(1, learning)) // asked.cpus_per_runner)
        if not fits and runners and asked.cpus_per_runner > 1:  # the size of a runner was configured
            if asked.cpus_per_runner > room:
                raise InputError(_too_large(asked, machine, learning))
            fits = 1
        if fits < runners:
            said.append(_reduced(asked, machine, fits, learning))
            runners = fits
    placement = Placement(
        runners,
        asked.cpus_per_runner,
        asked.gpus_per_runner,
        learners,
        cpus_per_learner,
        gpus_per_learner,
        asked.aggregators,
        tuple(said),
    )
    if placement.gpus > machine.gpus:
        raise InputError(
            f"The run asks for {_number(placement.gpus)} GPUs and {machine.name} has {_number(machine.gpus)}. "
            "Set resources.num_gpus or num_gpus_per_env_runner lower, or name a cluster that has them: --ray-address."
        )
    return _packed(placement, machine, firm=asked.firm)


def settled(
    resources: ResourcesConfig, options: RllibOptions, placement: Placement
) -> tuple[ResourcesConfig, RllibOptions]:
    """Return settings that request exactly this placement."""
    chosen: dict[str, object] = {"num_learners": placement.learners, "num_cpus_per_learner": placement.cpus_per_learner}
    if not placement.runners:
        chosen["num_env_runners"] = 0
    elif options.num_env_runners is None:
        resources = resources.model_copy(update={"num_env_runners": placement.runners})
    runtime = resources.model_copy(update={"runtime": "ray"})
    return runtime, options.model_copy(update=chosen)


def _packed(placement: Placement, machine: AvailableResources, *, firm: bool) -> Placement:
    """Reduce what was not configured until every process fits on one node: totals say too little about a cluster."""
    if packs(placement.needs, machine.rooms):
        return placement
    if placement.runners and not firm:
        fewer = placement.runners - 1
        where = "in the main process" if not fewer else f"by {_count(fewer, 'env runner')}"
        said = f"Envs are stepped {where}: the nodes of {machine.name} have no room for more."
        return _packed(replace(placement, runners=fewer, said=(said,)), machine, firm=False)
    raise InputError(_scattered(placement, machine))


def this_machine(asked: Asked) -> AvailableResources:
    """Return this machine's resources.

    Ray is asked about GPUs only if some are requested: it takes seconds to import.
    """
    gpus = _gpus_here() if asked.gpus or asked.gpus_per_runner else 0
    return AvailableResources(available_cores(), gpus)


def _gpus_here() -> int:
    from ray._private.accelerators import NvidiaGPUAcceleratorManager

    visible = NvidiaGPUAcceleratorManager.get_current_process_visible_accelerator_ids()
    there = int(NvidiaGPUAcceleratorManager.get_current_node_num_accelerators())
    return there if visible is None else min(there, len(visible))


def _learners(asked: Asked, machine: AvailableResources) -> tuple[int, int]:
    if asked.learners is None:
        roomy = machine.cpus > 1 and asked.apart
        learners = math.ceil(asked.gpus) or int(roomy)
    else:
        learners = asked.learners
        if asked.gpus and not learners:
            raise InputError(
                "num_learners=0 learns in the main process, where Ray gives out no GPU: "
                "leave num_learners out or set it to 1."
            )
    default = 0 if asked.gpus else 1
    return learners, default if asked.cpus_per_learner is None else asked.cpus_per_learner


def _for_learning(learners: int, cpus_per_learner: int, aggregators: int) -> int:
    return learners * cpus_per_learner + max(1, learners) * aggregators


def _too_many(asked: Asked, machine: AvailableResources, learning: int, fits: int) -> str:
    each = f" with {asked.cpus_per_runner} CPUs each" if asked.cpus_per_runner > 1 else ""
    beside = f", {learning} of them for learning" if learning else ""
    return (
        f"{_count(asked.runners, 'env runner')}{each} cannot be placed: {machine.name} has "
        f"{_count(machine.cpus, 'CPU')}{beside}. Type --num-env-runners {fits}, or name a larger cluster: "
        "--ray-address HOST:PORT."
        if fits
        else f"{_count(asked.runners, 'env runner')}{each} cannot be placed: {machine.name} has "
        f"{_count(machine.cpus, 'CPU')}{beside}. Leave --num-env-runners out (the envs are then stepped in the main "
        "process), or name a larger cluster: --ray-address HOST:PORT."
    )


def _too_large(asked: Asked, machine: AvailableResources, learning: int) -> str:
    beside = f", {learning} of them for learning" if learning else ""
    return (
        f"An env runner with {asked.cpus_per_runner} CPUs cannot be placed: {machine.name} has "
        f"{_count(machine.cpus, 'CPU')}{beside}. Set resources.num_cpus lower, or name a larger cluster: "
        "--ray-address HOST:PORT."
    )


def _scattered(placement: Placement, machine: AvailableResources) -> str:
    needs = ", ".join(_size(need.cpus, need.gpus) for need in sorted(set(placement.needs), reverse=True))
    rooms = ", ".join(_size(node.cpus, node.gpus) for node in machine.rooms)
    return (
        f"{_count(placement.runners, 'env runner')} and {_count(placement.learners, 'learner')} cannot be placed: each "
        f"of their processes must be whole on one machine, and of a GPU it gets a part or whole ones. They need "
        f"{needs} each; free at {machine.name}: {rooms}. Set --num-env-runners, resources.num_cpus, "
        "resources.num_gpus or num_learners lower."
    )


def _size(cpus: int, gpus: float) -> str:
    return _count(cpus, "CPU") + (f" with {_number(gpus)} GPU" if gpus else "")


def _reduced(asked: Asked, machine: AvailableResources, fits: int, learning: int) -> str:
    rest = _count(max(1, learning), "CPU")
    where = "in the main process" if fits == 0 else f"by {_count(fits, 'env runner')} instead of {asked.runners}"
    return f"Envs are stepped {where}: {machine.name} has {_count(machine.cpus, 'CPU')}, learning takes {rest}."


def _count(number: float, what: Literal["CPU", "learner", "env runner"]) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _number(value: float) -> str:
    return f"{value:g}"
