"""Callback for users' own Ray Tune scripts, and the fields of a metric line in a result of Ray."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, TypeAlias

from ray.tune import Callback

from mosaic.telemetry.events.lines import emit_metric
from mosaic.workers.rllib.reporting.metrics import learner_statistics

Result: TypeAlias = Mapping[str, Any]  # as Ray returns it: a tree of numbers

MOST = 50  # names of a trial's own metrics, and trials: more would fill every chart
_STEPS = ("num_env_steps_sampled_lifetime", "timesteps_total")
_REWARDS = ("episode_return_mean", "episode_reward_mean")
_BOOKKEEPING = frozenset({
    "config", "date", "done", "env_runners", "experiment_id", "experiment_tag", "fault_tolerance", "hostname", "info",
    "iterations_since_restore", "learners", "node_ip", "perf", "pid", "time_since_restore", "time_this_iter_s",
    "time_total_s", "timers", "timestamp", "training_iteration", "trial_id", "warmup_time", *_STEPS, *_REWARDS,
})  # fmt: skip


class MosaicTuneCallback(Callback):
    """Callback that reports the results of a Tune run to Mosaic's worker `script`; without that worker it does nothing.

    Each trial is shown as a policy of its own, env steps are those of all trials, and the mean return is that of the
    best trial. Pass it to `tune.RunConfig(callbacks=[MosaicTuneCallback()])`.
    """

    def __init__(self) -> None:
        self._last: dict[str, dict[str, Any]] = {}
        self._results, self._told = 0, False

    def on_trial_result(
        self, iteration: int, trials: list[Any], trial: Any, result: dict[str, Any], **info: Any
    ) -> None:
        self._results += 1
        name, told = str(trial), result_fields(result)
        rewards = [last["reward"] for last in self._last.values() if last["reward"] is not None]
        reward = told.get("episode_reward_mean")
        before = self._last[name]["steps"] if name in self._last else 0  # a trial that goes back has taken its steps
        self._last[name] = {"steps": max(before, told.get("env_steps", 0)), "reward": reward}
        best = max([*rewards, *([] if reward is None else [reward])], default=None)
        shown = list(self._last).index(name) < MOST
        emit_metric(
            training_iteration=self._results,
            env_steps=sum(last["steps"] for last in self._last.values()),
            **({} if best is None else {"episode_reward_mean": best}),
            trials=len(self._last),
            policies={name: _trial(told, result)} if shown else {},
        )
        if not shown and not self._told:
            self._told = True
            emit_metric(kind="alert", message=f"Curves of the first {MOST} trials are kept; '{name}' is a further one.")


def result_fields(result: Result) -> dict[str, Any]:
    """Return the fields of a metric line for one result of RLlib, or of another trainable that uses its names."""
    runners = result.get("env_runners")
    places = [result, runners if isinstance(runners, Mapping) else {}]
    found: dict[str, Any] = {"training_iteration": _first(places, "training_iteration")}
    found["env_steps"] = _first(places, *_STEPS)
    found["episode_reward_mean"] = _first(places, *_REWARDS)
    for which in ("min", "max"):
        found[f"episode_reward_{which}"] = _first(places, f"episode_return_{which}", f"episode_reward_{which}")
    found["episode_len_mean"] = _first(places, "episode_len_mean")
    found["agent_steps"] = _agent_steps(places)
    for name in ("training_iteration", "env_steps", "agent_steps"):
        found[name] = None if found[name] is None else int(found[name])
    fields = {name: value for name, value in found.items() if value is not None}
    return {**fields, "policies": _modules(result, places[1])}


def _modules(result: Result, runners: Result) -> dict[str, Any]:
    """Return the blocks of RLlib's modules: mean returns and the learner's numbers."""
    returns = runners.get("module_episode_returns_mean")
    learners = result.get("learners")
    blocks: dict[str, Any] = {}
    for name, value in returns.items() if isinstance(returns, Mapping) else ():
        if (number := _number(value)) is not None:
            blocks.setdefault(str(name), {})["reward_mean"] = number
    for name, numbers in learners.items() if isinstance(learners, Mapping) else ():
        if isinstance(numbers, Mapping) and not str(name).startswith("__"):
            blocks.setdefault(str(name), {})["learner"] = learner_statistics(numbers)
    return blocks


def _trial(told: Mapping[str, Any], result: Result) -> dict[str, Any]:
    own = {name: value for name, value in _numbers(result) if name not in _BOOKKEEPING}
    learner = [block.get("learner", {}) for block in told["policies"].values()]
    reward = told.get("episode_reward_mean")
    return {
        **({} if reward is None else {"reward_mean": reward}),
        **({"learner": learner[0]} if len(learner) == 1 else {}),
        "custom_metrics": dict(list(own.items())[:MOST]),
    }


def _agent_steps(places: list[Result]) -> float | None:
    for place in places:
        steps = place.get("num_agent_steps_sampled_lifetime")
        if isinstance(steps, Mapping):
            return sum(value for _, value in _numbers(steps))
    return None


def _numbers(tree: Result) -> Iterator[tuple[str, float]]:
    for name, value in tree.items():
        if (number := _number(value)) is not None:
            yield str(name), number


def _first(places: list[Result], *names: str) -> float | None:
    found = (_number(place.get(name)) for name in names for place in places)
    return next((number for number in found if number is not None), None)


def _number(value: object) -> float | None:
    """Return a finite number; None for everything else, such as NaN where no episode has ended."""
    if value is None or isinstance(value, bool | str | bytes):
        return None
    try:
        number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError):
        return None
    return number if isfinite(number) else None
