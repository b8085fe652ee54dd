"""Metrics that a user's RLlib callbacks log, found among those of RLlib itself.

`metrics_logger.log_value(name, …)` of an env runner's callback puts a value beside RLlib's own below "env_runners",
that of `on_train_result` beside RLlib's own of the whole result. Values logged by learners are reported with the
statistics of their policy.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cache
from typing import SupportsFloat

from mosaic.workers.rllib.reporting.episodes import ALERTS, EPISODES, OTHERS_STEPS, RllibResult

_RUNNERS = "env_runners"
_OWN = {EPISODES, ALERTS, OTHERS_STEPS, "agent_episode_return_mean", "module_episode_return_mean", "env_runner_group"}
_TUNES = {  # which Ray Tune adds to every result
    "config",
    "date",
    "done",
    "hostname",
    "iterations_since_restore",
    "node_ip",
    "perf",
    "pid",
    "time_since_restore",
    "time_this_iter_s",
    "time_total_s",
    "timestamp",
    "trial_id",
}
_THROUGHPUT = "_throughput"  # RLlib's suffix of rates that it derives from counters


@cache
def _known() -> frozenset[str]:
    """Return the names of RLlib's own metrics: the constants of its module, and those that it has no constant for."""
    from ray.rllib.utils import metrics

    return frozenset({value for value in vars(metrics).values() if isinstance(value, str)} | _OWN | _TUNES)


def user_metrics(result: RllibResult) -> dict[str, float]:
    """Return every finite number that a user's callbacks logged; nested names are joined by slashes.

    A name that is used in both places is that of the env runners.
    """
    runners = result.get(_RUNNERS)
    return {**_unknown(result), **(_unknown(runners) if isinstance(runners, Mapping) else {})}


def _unknown(metrics: RllibResult) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, value in metrics.items():
        if name not in _known() and name.removesuffix(_THROUGHPUT) not in _known():
            found.update(_flat(str(name), value))
    return found


def _flat(name: str, value: object) -> Iterator[tuple[str, float]]:
    if isinstance(value, Mapping):
        for part, inner in value.items():
            yield from _flat(f"{name}/{part}", inner)
    elif isinstance(value, SupportsFloat):
        number = float(value)
        if math.isfinite(number):
            yield name, number
