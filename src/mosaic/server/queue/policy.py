"""Scheduling policy of the queue: a pure function of the queued runs, the running ones and the limits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from mosaic.config.run import RunConfig

UNSAID_MEMORY_MB = 512  # assumed for a run without a memory limit


@dataclass(frozen=True, slots=True)
class QueueLimits:
    """Limits for all runs of the store together."""

    runs: int
    cores: int
    memory_mb: int
    gpus: int


@dataclass(frozen=True, slots=True)
class Demand:
    """Resources that one run needs, and its owner: runs of one owner queue behind each other, owners take turns."""

    run_id: str
    cores: int = 1
    memory_mb: int = UNSAID_MEMORY_MB
    gpus: float = 0.0
    queued_at: float = 0.0
    owner: str = ""


def demand_of(config: RunConfig, run_id: str, queued_at: float = 0.0, group: str = "") -> Demand:
    resources = config.resources
    return Demand(
        run_id,
        cores=resources.env_runners * resources.num_cpus,
        memory_mb=resources.max_memory_mb or UNSAID_MEMORY_MB,
        gpus=resources.num_gpus,
        queued_at=queued_at,
        owner=group or next(iter(config.tags), ""),
    )


def too_much(demand: Demand, limits: QueueLimits) -> str | None:
    """Return why this run could not start even alone. Cores are shared: a run that requests too many runs alone."""
    if demand.gpus > limits.gpus:
        return f"it requests {demand.gpus:g} GPUs, and this server may use {limits.gpus}"
    if demand.memory_mb > max(limits.memory_mb, UNSAID_MEMORY_MB):
        return f"it requests {demand.memory_mb} MB of memory, and this server may use {limits.memory_mb} MB"
    return None


def choose(queued: Iterable[Demand], running: Iterable[Demand], limits: QueueLimits) -> list[str]:
    """Return the runs to start, in order.

    Of the owners with the fewest running runs, the one whose run has waited longest is next. If that run does not fit,
    no other overtakes it: else a large run would wait for as long as small ones arrive. A run that can never fit blocks
    no others.
    """
    used = list(running)
    chosen: list[str] = []
    for following in in_order((demand for demand in queued if too_much(demand, limits) is None), used):
        if not fits([*used, following], limits):
            break
        used.append(following)
        chosen.append(following.run_id)
    return chosen


def in_order(queued: Iterable[Demand], running: Iterable[Demand]) -> list[Demand]:
    """Return the queued runs in the order in which they will start, as far as is known now."""
    waiting = sorted(queued, key=lambda demand: (demand.queued_at, demand.run_id))
    under_way = Counter(demand.owner for demand in running)
    found: list[Demand] = []
    while waiting:
        following = min(waiting, key=lambda demand: under_way[demand.owner])  # the first of equals has waited longest
        waiting.remove(following)
        under_way[following.owner] += 1
        found.append(following)
    return found


def why_waiting(demand: Demand, before: int, running: list[Demand], limits: QueueLimits) -> str:
    """Return why a run is not started now, for users; `before` is the number of runs that come first."""
    if problem := too_much(demand, limits):
        return f"It can never start here: {problem}."
    if before:
        return f"{_runs(before)} will start first."
    if fits([*running, demand], limits):
        return "It starts in a moment."
    if len(running) >= limits.runs:
        verb = "is" if len(running) == 1 else "are"
        return f"{_runs(len(running))} {verb} alive, and this server runs {limits.runs} at a time."
    cores = sum(min(run.cores, limits.cores) for run in running)
    if cores + min(demand.cores, limits.cores) > limits.cores:
        return f"It needs {min(demand.cores, limits.cores)} of {limits.cores} cores, and {cores} are in use."
    if sum(run.gpus for run in running) + demand.gpus > limits.gpus:
        return f"It needs {demand.gpus:g} of {limits.gpus} GPUs, and others use them."
    return f"It needs {demand.memory_mb:,} MB of memory, and others use it."


def _runs(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


def fits(runs: list[Demand], limits: QueueLimits) -> bool:
    return (
        len(runs) <= limits.runs
        and sum(min(run.cores, limits.cores) for run in runs) <= limits.cores
        and sum(min(run.memory_mb, limits.memory_mb) for run in runs) <= limits.memory_mb
        and sum(run.gpus for run in runs) <= limits.gpus + 1e-9
    )
