"""Format of a metric event, its encoding as a line of JSON, and the names of its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Required, TypedDict, TypeGuard

import msgspec

from mosaic.core.errors import MosaicError

COUNTERS = ("training_iteration", "env_steps", "agent_steps", "episodes_total")
MEASURES = (
    "episode_reward_mean",
    "episode_reward_min",
    "episode_reward_max",
    "episode_len_mean",
    "env_steps_per_s",
)
AXES = ("env_steps", "agent_steps", "episodes_total", "training_iteration", "timestamp", "seq")
FRAME = frozenset({*AXES, "attempt", "kind"})
"""Fields that locate an event; the others are its content."""
KINDS = {
    "started": "An attempt begins: its resources.",
    "stage": "What a start is doing, until the first iteration.",
    "compiling": "Machine code is compiled, which later runs find in a cache.",
    "equipped": "What trains: engine, envs, devices, and why they were chosen.",
    "iteration": "Counters, returns, speed and the learner's numbers.",
    "episode": "One episode, where a program of the worker script reports it.",
    "evaluation": "Results of the policies on seeds that training never uses; one event per opponent.",
    "checkpoint": "A checkpoint was saved; `path` is its folder.",
    "checkpoint_exists": "A checkpoint was asked for at a step that has one.",
    "curriculum": "A stage of the curriculum begins.",
    "exported": "Policies were written as files and compared.",
    "config_changed": "A resumed run has other settings than before.",
    "resumed": "An attempt continues from a checkpoint; earlier events after that step are no longer shown.",
    "alert": "Something to look at: `message` says what.",
    "ended": "Training has ended: reason and times.",
}
"""Kinds of events that Mosaic's workers report; a plug-in may report others."""


class TimeSplit(TypedDict, total=False):
    """Seconds since the last iteration event, by activity."""

    env: float | None
    inference: float | None
    learning: float | None


class PolicyMetrics(TypedDict, total=False):
    reward_mean: float | None
    reward_min: float | None
    reward_max: float | None
    agent_steps: int | None
    episodes_total: int | None
    learner: dict[str, object]
    rating: float | None
    custom_metrics: dict[str, object]


class EvaluationMetrics(TypedDict, total=False):
    """Results in one evaluation: of an agent, of a policy, or of the learner against a snapshot."""

    episodes: int
    reward_mean: float | None
    reward_min: float | None
    reward_max: float | None
    wins: int  # these four where the game has a winner
    draws: int
    losses: int
    win_rate: float
    policy: str  # of an agent: the policy that played it, in the episodes that are counted; several: with commas
    policies: list[str]  # of an agent that different policies played in different episodes
    others: dict[str, str]  # of an agent: the policy of each other agent in these episodes
    snapshot: str  # of a snapshot: its name


class MetricEvent(TypedDict, total=False):
    """One line of metrics.jsonl. Kinds may have further fields of their own; what is not a finite number is null."""

    kind: Required[str]
    seq: Required[int]  # number of the event in its run, without gaps
    attempt: Required[int]  # counted from 1; a resumed run has several
    timestamp: Required[float]  # seconds since 1970
    training_iteration: int | None  # iterations so far
    env_steps: int | None  # steps of all envs so far
    agent_steps: int | None  # decisions of all agents so far
    episodes_total: int | None  # episodes that have ended
    episode_reward_mean: float | None  # return: sum of an episode's rewards, mean over the last 100 episodes
    episode_reward_min: float | None
    episode_reward_max: float | None
    episode_len_mean: float | None  # env steps of an episode
    env_steps_per_s: float | None
    time_split: TimeSplit
    policies: dict[str, PolicyMetrics]
    custom_metrics: dict[str, object]  # numbers of envs, programs and callbacks
    # kind "iteration": "clock" if due only because of telemetry.report_every_s, so that a repeated run has it elsewhere
    trigger: str
    # kind "started"
    num_env_runners: int | None  # "num_workers" in runs of earlier versions
    ray_address: str | None
    # kind "resumed"
    from_env_steps: int | None
    # kinds "config_changed" and "curriculum": {setting or option of the env: [old value, new value]}
    changes: dict[str, object]
    # kind "curriculum": the stage that begins; counted from 1, as `curriculum_stage` of iterations
    stage: int
    curriculum_stage: int
    # kinds "alert", "equipped", "stage", "compiling", "curriculum", "exported": what is wrong, what trains, what the
    # start is doing, which options change, which files were written
    message: str
    # kinds "checkpoint", once for a step, and "checkpoint_exists": it was asked for or saved again
    path: str
    # kind "exported": `path` is the folder of the files, and the comparison is that of the worst of them
    moment: str  # "best" or "end"
    checkpoint: int  # its env steps
    export_id: str
    files: int
    max_abs_diff: float | None
    action_agreement: float
    # kind "evaluation": its means are of all agents that learn; in runs of earlier versions of the first agent alone,
    # without `agents`, `policies`, `against` and `snapshots`
    episodes: int
    agents: dict[str, EvaluationMetrics]
    opponent: str  # a policy, or "league"; missing where the learners played among themselves
    against: dict[str, dict[str, float]]  # mean reward and win rate of the learners, by opponent
    snapshots: list[EvaluationMetrics]  # of the learners against each snapshot of the league
    wins: int  # of the learners against the opponent
    draws: int
    losses: int
    win_rate: float


class UnstorableEventError(MosaicError):
    """Event that JSON cannot hold."""


def encode(record: object) -> bytes:
    """Encode as JSON without a line break; NaN and ±inf become null, arrays and tensors become numbers and lists."""
    try:
        return _encoder.encode(record)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        kind = f" '{record['kind']}'" if isinstance(record, dict) and isinstance(record.get("kind"), str) else ""
        raise UnstorableEventError(
            f"The event{kind} cannot be stored: {error}. Report numbers, strings, and lists and dicts of these."
        ) from error


def _plain(value: object) -> object:
    """Convert values of NumPy, torch and others with their own `tolist`, and paths to text."""
    if isinstance(value, PurePath):
        return str(value)
    if callable(as_list := getattr(value, "tolist", None)):
        return as_list()
    raise TypeError(f"{value!r} is of type {type(value).__name__}")


_encoder = msgspec.json.Encoder(enc_hook=_plain)


def prefix(kind: str) -> str:
    """Return the prefix of an event's metric names: none for iterations, else the kind.

    Without it an evaluation's mean reward would appear on the training curve.
    """
    return "" if kind == "iteration" else f"{kind}/"


def leaves(event: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Yield name and value of an event's content, without the fields that locate it."""
    start = prefix(str(event["kind"]))
    for key, value in event.items():
        if key not in FRAME:
            yield from _below(start + key, value)


def _below(name: str, value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _below(f"{name}/{key}", inner)
    else:
        yield name, value


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
