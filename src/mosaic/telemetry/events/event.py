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

    env: float | None  # stepping envs
    inference: float | None  # choosing actions
    learning: float | None  # updating policies


class PolicyMetrics(TypedDict, total=False):
    """Numbers of one policy."""

    reward_mean: float | None  # return of an agent that it plays, mean over recent episodes
    reward_min: float | None  # least of these returns
    reward_max: float | None  # greatest of these returns
    agent_steps: int | None  # its decisions so far
    episodes_total: int | None  # episodes of its agents that have ended
    learner: dict[str, object]  # losses, entropy and other numbers of its updates
    rating: float | None  # strength on the Elo scale, in self-play
    custom_metrics: dict[str, object]  # means of numbers in the infos of its agents' last steps


class EvaluationMetrics(TypedDict, total=False):
    """Results in one evaluation: of an agent, of a policy, or of the learner against a snapshot."""

    episodes: int  # episodes that count
    reward_mean: float | None  # mean return of these episodes
    reward_min: float | None  # least return
    reward_max: float | None  # greatest return
    wins: int  # games won, where the game has a winner
    draws: int  # games drawn, where the game has a winner
    losses: int  # games lost, where the game has a winner
    win_rate: float  # share of games won, where the game has a winner
    policy: str  # of an agent: the policy that played it, in the episodes that count; several: with commas
    policies: list[str]  # of an agent that different policies played in different episodes
    others: dict[str, str]  # of an agent: the policy of each other agent in these episodes
    snapshot: str  # of a snapshot: its name


class MetricEvent(TypedDict, total=False):
    """One line of metrics.jsonl. Kinds may have further fields of their own; what is not a finite number is null.

    A comment above a field begins a group of fields, up to the next one.
    """

    # All kinds
    kind: Required[str]  # see above
    seq: Required[int]  # number of the event in its run, without gaps
    attempt: Required[int]  # counted from 1; a resumed run has several
    timestamp: Required[float]  # seconds since 1970
    # Counters and measures, of most kinds
    training_iteration: int | None  # iterations so far
    env_steps: int | None  # steps of all envs so far
    agent_steps: int | None  # decisions of all agents so far
    episodes_total: int | None  # episodes that have ended
    episode_reward_mean: float | None  # sum of an agent's rewards in an episode; mean of all that learn, recently
    episode_reward_min: float | None  # least of these returns
    episode_reward_max: float | None  # greatest of these returns
    episode_len_mean: float | None  # env steps of an episode
    env_steps_per_s: float | None  # since the last iteration event
    time_split: TimeSplit  # where the time since then went
    policies: dict[str, PolicyMetrics]  # numbers of each policy, by its name
    custom_metrics: dict[str, object]  # numbers of envs, programs and callbacks
    # Kind iteration
    trigger: str  # "clock" where only telemetry.report_every_s asked for it: a repeated run has it at another step
    # Kind started
    num_env_runners: int | None  # "num_workers" in runs of earlier versions
    ray_address: str | None  # of the cluster that it joined
    # Kind resumed
    from_env_steps: int | None  # step of the checkpoint
    # Kinds config_changed and curriculum
    changes: dict[str, object]  # {setting or option of the env: [old value, new value]}
    # Kind curriculum
    stage: int  # the stage that begins, counted from 1
    curriculum_stage: int  # the same; iterations have it too
    # Kinds alert, equipped, stage, compiling, curriculum and exported
    message: str  # what is wrong, trains, is being started or compiled, changes, or was written
    # Kinds checkpoint and checkpoint_exists
    path: str  # folder of the checkpoint; a step has one `checkpoint`, and `checkpoint_exists` if it is asked for again
    # Kind exported; `path` is the folder of the files, and the comparison is that of the worst of them
    moment: str  # "best" or "end"
    checkpoint: int  # its env steps
    export_id: str  # as `mosaic exports` lists it
    files: int  # number of files
    max_abs_diff: float | None  # greatest difference of an output from the policy's
    action_agreement: float  # share of observations with the same action
    # Kind evaluation; means are of all agents that learn, in runs of earlier versions of the first agent alone
    episodes: int  # episodes that count
    agents: dict[str, EvaluationMetrics]  # result of each agent, by its name; not in runs of earlier versions
    opponent: str  # a policy, or "league"; missing where the learners played among themselves
    against: dict[str, dict[str, float]]  # mean reward and win rate of the learners, by opponent
    snapshots: list[EvaluationMetrics]  # of the learners against each snapshot of the league
    wins: int  # games that learners won against the opponent
    draws: int  # games drawn
    losses: int  # games lost
    win_rate: float  # share of games won


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
