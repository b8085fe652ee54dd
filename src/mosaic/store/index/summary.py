"""Summary of one run, as listed in the index, with its last metrics."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from mosaic.core.ids import EnvID
from mosaic.store.labels import read_labels
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import RunState, State, read_state

_CHUNK = 1 << 14
_ASIDES = ("checkpoint", "checkpoint_exists", "evaluation")  # not about training itself
REWARD = "episode_reward_mean"
_NEAR = 1 << 18  # bytes: lists of runs look no farther back for an evaluation
_FARTHEST = 1 << 22  # a run without training metrics in its last 4 MiB has no last metrics


@dataclass(frozen=True, slots=True)
class LastMetrics:
    env_steps: int = 0
    episode_reward_mean: float | None = None
    event: Mapping[str, object] = field(default_factory=dict)  # the last one with measurements


def last_metrics(path: Path) -> LastMetrics:
    """Return the last visible metrics: events that a later attempt repeated from an earlier step are hidden."""
    newest: Mapping[str, object] = {}
    measured: Mapping[str, object] = {}
    reached = math.inf  # where the next attempt began
    resumed_at: int | None = None
    for line in _lines_backwards(path):
        event = _event(line)
        steps = _steps(event.get("env_steps"))
        if event.get("kind") == "resumed":
            start = _steps(event.get("from_env_steps")) or 0
            reached = min(reached, start)
            if not newest and resumed_at is None:
                resumed_at = start
        elif steps is not None and steps <= reached:
            newest = newest or event
            if event.get("kind") in _ASIDES:
                continue
            measured = measured or event
            reward = _number(event.get("episode_reward_mean"))
            if reward is not None:
                return LastMetrics(_reached(newest, resumed_at), reward, measured)
    return LastMetrics(_reached(newest, resumed_at), None, measured)


def last_evaluation(path: Path, within: int = _FARTHEST) -> tuple[Mapping[str, object], ...]:
    """Return the visible events of the last evaluation, one per opponent; none where the file's end has none."""
    found: list[Mapping[str, object]] = []
    reached = math.inf  # where the next attempt began
    for line in _lines_backwards(path, within):
        if b'"evaluation"' not in line and b'"resumed"' not in line:
            continue
        event = _event(line)
        steps = _steps(event.get("env_steps")) or 0
        if event.get("kind") == "resumed":
            reached = min(reached, _steps(event.get("from_env_steps")) or 0)
        elif event.get("kind") == "evaluation" and steps <= reached:
            if found and found[0].get("env_steps") != event.get("env_steps"):
                break
            found.insert(0, event)
    return tuple(found)


def start_message(path: Path) -> tuple[str, float | None] | None:
    """Return what the start of a run reports, and since when; None once it has sampled.

    A message about compiled code counts its seconds itself, and has no time.
    """
    for line in _lines_backwards(path, _NEAR):
        event = _event(line)
        if event.get("kind") in ("stage", "compiling"):
            began = _number(event.get("timestamp")) if event["kind"] == "stage" else None
            return str(event.get("message", "")), began
        if event.get("kind") == "iteration" and event.get("env_steps"):
            return None
    return None


def headline(path: Path, metrics: LastMetrics, *, self_play: bool) -> tuple[str, float | None]:
    """Return the metric that tells how good a run's policies are, and its last value.

    The return of self-play tells nothing, as both sides learn: its rating does, or else its last evaluation.
    """
    if self_play:
        policies = metrics.event.get("policies")
        for policy, said in (policies if isinstance(policies, dict) else {}).items():
            if isinstance(said, dict) and (rating := _number(said.get("rating"))) is not None:
                return f"policies/{policy}/rating", rating
        for event in last_evaluation(path, _NEAR):
            if (result := _number(event.get(REWARD))) is not None:
                return f"evaluation/{REWARD}", result
    return REWARD, metrics.episode_reward_mean


def _reached(newest: Mapping[str, object], resumed_at: int | None) -> int:
    return resumed_at if resumed_at is not None else _steps(newest.get("env_steps")) or 0


def _lines_backwards(path: Path, within: int = _FARTHEST) -> Iterator[bytes]:
    """Yield whole lines, last one first; anything after the last line break is still being written."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return
    with file:
        size = position = file.seek(0, os.SEEK_END)
        rest, torn = b"", True
        while position > 0 and size - position < within:
            start = max(0, position - _CHUNK)
            file.seek(start)
            rest, *lines = (file.read(position - start) + rest).split(b"\n")
            position = start
            if torn and lines:
                lines.pop()
                torn = False
            yield from reversed(lines)
        if position == 0 and not torn:
            yield rest


def _event(line: bytes) -> Mapping[str, object]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}  # the metrics reader reports damaged lines; here the line before is enough
    return value if isinstance(value, dict) else {}


def _steps(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63 else None


def _number(value: object) -> float | None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) < 1e300 else None


@dataclass(frozen=True, slots=True)
class RunLabels:
    """Names under which a run is found."""

    run_id: str
    name: str
    tags: tuple[str, ...]
    group: str
    project: str  # that it was started from; empty without one
    note: str
    hidden: bool  # from lists of runs


@dataclass(frozen=True, slots=True)
class RunSummary(RunLabels):
    state: State
    env: EnvID
    worker: str | None
    algorithm: str | None
    env_steps: int
    episode_reward_mean: float | None
    queued_at: float
    started: float | None  # seconds since 1970, like all times here
    ended: float | None
    seed: int
    imported: bool
    target_steps: int | None  # env steps after which it ends; None without such a limit
    measure: str  # metric that tells how good its policies are
    score: float | None  # its last value


def summarise(folder: RunFolder, state: RunState | None = None) -> RunSummary:
    """Summarise a run from its folder alone; `state` replaces the actual state."""
    state = state or read_state(folder)
    config, labels = folder.read_config(), read_labels(folder)
    metrics = last_metrics(folder.metrics)
    measure, score = headline(folder.metrics, metrics, self_play=config.policy_configuration == "self_play")
    return RunSummary(
        run_id=folder.run_id,
        name=labels.name_of(config),
        tags=labels.tags_of(config),
        state=state.state,
        env=config.environment.id,
        worker=config.training.worker,
        algorithm=config.training.algorithm,
        env_steps=metrics.env_steps,
        episode_reward_mean=metrics.episode_reward_mean,
        queued_at=state.queued_at,
        started=state.started,
        ended=state.ended,
        group=state.group,
        seed=config.seed,
        imported=folder.is_imported(),
        project=config.project,
        note=labels.note or "",
        hidden=bool(labels.hidden),
        target_steps=config.training.total_timesteps,
        measure=measure,
        score=score,
    )
