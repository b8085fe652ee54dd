"""Conversion of RLlib's results to Mosaic's metric events: never NaN, unknown values are left out."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any, SupportsFloat

from mosaic.core.ids import AgentID, PolicyID
from mosaic.workers.rllib.reporting.episodes import (
    OTHERS_STEPS,
    EpisodeRecord,
    RllibResult,
    Sampled,
    returns_by_agent,
    returns_by_policy,
)
from mosaic.workers.rllib.reporting.user_metrics import user_metrics

NO_EPISODE = "no episode yet"
_RECENT = 100
_ALL = "__all_modules__"  # RLlib's key for what concerns every module


@dataclass(slots=True)
class RllibProgress:
    """Progress of a run, over all attempts."""

    iteration: int = 0
    env_steps: int = 0
    agent_steps: int = 0
    episodes: int = 0
    recent: deque[EpisodeRecord] = field(default_factory=lambda: deque(maxlen=_RECENT))
    stage: int = 1  # of the curriculum; `recent` holds episodes of this stage only

    def add(self, result: RllibResult, ended: Sequence[EpisodeRecord]) -> None:
        """Add an iteration.

        RLlib's lifetime counters are reset when runners are lost; an iteration's counts are reliable.
        """
        runners = _tree(result, "env_runners")
        self.iteration += 1
        self.env_steps += int(_number(runners.get("num_env_steps_sampled")) or 0)
        self.agent_steps += int(sum(_numbers(_tree(runners, "num_agent_steps_sampled")).values()))
        self.episodes += len(ended)
        self.recent.extend(self.in_stage(ended))

    def in_stage(self, records: Iterable[EpisodeRecord]) -> list[EpisodeRecord]:
        """Return the records of the current stage: samples in transit arrive after its beginning."""
        return [record for record in records if record.get("stage", self.stage) == self.stage]

    def begin_stage(self, stage: int) -> None:
        """Forget the rewards of earlier stages, so that they do not end this one."""
        self.stage = stage
        self.recent.clear()

    def add_learned(self, steps: int) -> None:
        """Count steps of a dataset that were learned from."""
        self.env_steps += steps
        self.agent_steps += steps

    def reward(self, policies: Iterable[PolicyID]) -> float | None:
        """Return the mean return of agents whose policies learn, over the last hundred episodes."""
        found = returns_by_policy(self.recent)
        values = [value for policy in policies for value in found.get(policy, ())]
        return fmean(values) if values else None

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "recent": list(self.recent)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> RllibProgress:
        return cls(**{**stored, "recent": deque(stored["recent"], maxlen=_RECENT)})


@dataclass(slots=True)
class Interval:
    """Iterations since the last metric event, which tells of all of them."""

    statistics: dict[str, dict[str, list[float]]] = field(default_factory=dict)  # of RLlib's learner, by module
    spent: dict[str, float] = field(default_factory=dict)  # seconds in envs, inference and learning
    ended: list[EpisodeRecord] = field(default_factory=list)
    result: RllibResult = field(default_factory=dict)  # of the last iteration
    logged: dict[str, float] = field(default_factory=dict)  # by a user's callbacks, in the last iteration that did

    def add(self, result: RllibResult, ended: Sequence[EpisodeRecord], envs_per_runner: int) -> None:
        self.result = result
        self.ended.extend(ended)
        self.logged.update(user_metrics(result))
        for part, seconds in split(result, envs_per_runner).items():
            self.spent[part] = self.spent.get(part, 0.0) + seconds
        for module, stats in _tree(result, "learners").items():
            found = self.statistics.setdefault(str(module), {})
            for name, value in learner_statistics(stats if isinstance(stats, Mapping) else {}).items():
                found.setdefault(name, []).append(value)

    def learner(self, module: str) -> dict[str, float]:
        """Return the statistics of a module: means over the iterations, sums of counts, the last of running totals."""
        return {name: _combined(name, values) for name, values in self.statistics.get(module, {}).items()}

    def episodes(self, policies: Iterable[PolicyID]) -> dict[str, float]:
        """Return the number of episodes that ended, and the mean return of agents whose policies learn."""
        found = returns_by_policy(self.ended)
        values = [value for policy in policies for value in found.get(policy, ())]
        return {"interval/episodes": len(self.ended), "interval/reward_mean": fmean(values)} if values else {}


def _combined(name: str, values: Sequence[float]) -> float:
    if name.endswith("_lifetime") or name == "weights_seq_no":
        return values[-1]
    return sum(values) if name.startswith("num_") else fmean(values)


def fields(
    interval: Interval,
    progress: RllibProgress,
    modules: Mapping[PolicyID, str],
    league: Mapping[str, object] | None = None,
    numbers: Mapping[PolicyID, Mapping[str, object]] | None = None,
) -> dict[str, object]:
    """Return the fields for `context.report`.

    `modules` are the policies that learn, with RLlib's names for them. `league` are the metrics of self-play, with
    `rating/POLICY` of policies that learn. `numbers` are further fields of policies: those of the env's infos.
    """
    recent = progress.recent
    by_policy, by_agent = returns_by_policy(recent), returns_by_agent(recent)
    seen = [value for policy in modules for value in by_policy.get(policy, ())]
    ratings = dict(league or {})
    policies: dict[PolicyID, dict[str, object]] = {}
    for policy, module in modules.items():
        mean = {"reward_mean": fmean(by_policy[policy])} if by_policy.get(policy) else {}
        policies[policy] = {**mean, "learner": interval.learner(module), **(numbers or {}).get(policy, {})}
        if f"rating/{policy}" in ratings:
            policies[policy]["rating"] = ratings.pop(f"rating/{policy}")
    by_name = {
        f"agents/{agent}/reward_mean": fmean(values) for agent, values in by_agent.items() if _told(agent, by_agent)
    }
    return {
        "training_iteration": progress.iteration,
        "env_steps": progress.env_steps,
        "agent_steps": progress.agent_steps,
        "episodes_total": progress.episodes,
        **(_summary(seen, recent) if seen else {"note": NO_EPISODE}),
        "time_split": dict(interval.spent),
        "policies": policies,
        "custom_metrics": {
            **interval.logged,  # first: what Mosaic reports under a name keeps its meaning
            **by_name,
            **interval.episodes(modules),
            **_health(interval.result),
            **ratings,
        },
    }


def sampled_fields(progress: RllibProgress, sampled: Sampled, modules: Iterable[PolicyID]) -> dict[str, object]:
    """Return the fields of a report within an iteration: counters and returns, including the iteration so far."""
    recent = [*progress.recent, *progress.in_stage(sampled.records)][-_RECENT:]
    by_policy = returns_by_policy(recent)
    seen = [value for policy in modules for value in by_policy.get(policy, ())]
    return {
        "env_steps": progress.env_steps + sampled.env_steps,
        "episodes_total": progress.episodes + sampled.episodes,
        **({"note": None, **_summary(seen, recent)} if seen else {"note": NO_EPISODE}),
    }


_NAMES = {"mean_kl_loss": "approx_kl", "vf_loss": "value_loss"}  # RLlib's name → Stable-Baselines3's


def learner_statistics(stats: RllibResult) -> dict[str, float]:
    """Return every finite number that RLlib's learner reports for a module, under the names that all workers use."""
    return {_NAMES.get(name, name): value for name, value in _numbers(stats).items()}


def split(result: RllibResult, envs_per_runner: int) -> dict[str, float]:
    """Return the seconds that this iteration spent in envs, inference and learning.

    They are totals over all runners, from RLlib's running means.
    """
    runners, timers = _tree(result, "env_runners"), _tree(result, "timers")
    sampled = (_number(runners.get("num_env_steps_sampled")) or 0.0) - (_number(runners.get(OTHERS_STEPS)) or 0.0)
    rounds = sampled / envs_per_runner
    inference = [
        _number(runners.get("rlmodule_inference_timer")),
        _number(_tree(runners, "env_to_module_connector").get("connector_pipeline_timer")),
        _number(_tree(runners, "module_to_env_connector").get("connector_pipeline_timer")),
    ]
    known = {
        "env": _times(rounds, _number(runners.get("env_step_timer"))),
        "inference": _times(rounds, sum(filter(None, inference)) or None),
        "learning": _learning_s(result, timers),
    }
    return {name: value for name, value in known.items() if value is not None}


def _learning_s(result: RllibResult, timers: RllibResult) -> float | None:
    everybody = _tree(_tree(result, "learners"), _ALL)
    threaded = _number(everybody.get("learner_thread_update_timer"))
    if threaded is None:
        calls = _number(result.get("num_training_step_calls_per_iteration")) or 1.0
        return _times(calls, _number(timers.get("learner_update_timer")))
    sizes = [_number(_tree(stats, "").get("module_train_batch_size_mean")) for stats in _modules(result)]
    trained, size = _number(everybody.get("num_module_steps_trained")), sum(filter(None, sizes))
    return _times(trained / size, threaded) if trained is not None and size else None


def _modules(result: RllibResult) -> list[RllibResult]:
    return [stats for name, stats in _tree(result, "learners").items() if name != _ALL and isinstance(stats, Mapping)]


def _summary(seen: Sequence[float], recent: Iterable[EpisodeRecord]) -> dict[str, float]:
    return {
        "episode_reward_mean": fmean(seen),
        "episode_reward_min": min(seen),
        "episode_reward_max": max(seen),
        "episode_len_mean": fmean(record["length"] for record in recent),
    }


def _told(agent: AgentID, by_agent: Mapping[AgentID, Sequence[float]]) -> bool:
    return len(by_agent) > 1 and bool(by_agent[agent])


def _health(result: RllibResult) -> dict[str, float]:
    """Return how many remote runners are healthy, and how many were restarted."""
    found = _numbers(_tree(result, "fault_tolerance"))
    wanted = ("num_healthy_workers", "num_remote_worker_restarts")
    return {name: found[name] for name in wanted if found.get(name)}


def _tree(data: RllibResult, name: str) -> RllibResult:
    found = data.get(name) if name else data
    return found if isinstance(found, Mapping) else {}


def _times(count: float, seconds: float | None) -> float | None:
    return None if seconds is None else count * seconds


def _numbers(data: RllibResult) -> dict[str, float]:
    known = {str(name): _number(value) for name, value in data.items()}
    return {name: value for name, value in known.items() if value is not None}


def _number(value: object) -> float | None:
    if not isinstance(value, SupportsFloat):
        return None
    number = float(value)
    return number if math.isfinite(number) else None
