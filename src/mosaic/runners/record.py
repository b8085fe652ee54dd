"""Lossless JSON files of recorded episodes, and their replay."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, JsonValue, ValidationError

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import (
    DecisionReport,
    End,
    Episode,
    EpisodeNote,
    NoteKind,
    PolicyChange,
    StepReport,
    TranscriptLine,
)
from mosaic.core.errors import FormatError, InputError, shown
from mosaic.core.files import write_atomic
from mosaic.core.ids import AgentID, Json, JsonObject, PolicyID
from mosaic.core.reference import explain
from mosaic.core.turn import Action, Turn, digest
from mosaic.envs.env import Env
from mosaic.envs.spaces import objection

FORMAT, VERSION = "mosaic.episode", 1
_DTYPES = ("bool", *(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)),
           "float16", "float32", "float64")  # fmt: skip


class _ReportFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    step: int = Field(ge=0)
    agent: AgentID
    numbers: dict[str, bool | int | FiniteFloat | list[bool | int | FiniteFloat]]
    transcript: list[tuple[str, str, str]]

    def report(self) -> StepReport:
        lines = tuple(TranscriptLine(*line) for line in self.transcript)
        return StepReport(self.step, self.agent, DecisionReport(self.numbers, lines))


class _EpisodeFile(BaseModel):
    """Contents of the file; actions are encoded."""

    model_config = ConfigDict(extra="forbid")

    format: str
    version: int
    environment: dict[str, JsonValue]
    seed: int = Field(ge=0, lt=2**64)
    policies: dict[AgentID, PolicyID]
    changes: list[tuple[int, AgentID, PolicyID]]
    actions: list[dict[AgentID, object]]
    rewards: list[dict[AgentID, float]]
    digests: list[int]
    first_digest: int
    ends: dict[AgentID, tuple[int, End]]
    cut: bool
    versions: dict[str, str]
    reports: list[_ReportFile] = []
    notes: list[tuple[Annotated[int, Field(ge=0)], AgentID, NoteKind, Annotated[int, Field(ge=0)]]] = []


def episode_to_json(episode: Episode) -> JsonObject:
    return {
        "format": FORMAT,
        "version": VERSION,
        "environment": dict(episode.environment),
        "seed": episode.seed,
        "policies": dict(episode.policies),
        "changes": [list(change) for change in episode.changes],
        "actions": [{agent: encode(action) for agent, action in actions.items()} for actions in episode.actions],
        "rewards": [{agent: _number(reward) for agent, reward in rewards.items()} for rewards in episode.rewards],
        "digests": episode.digests,
        "first_digest": episode.first_digest,
        "ends": {agent: list(end) for agent, end in episode.ends.items()},
        "cut": episode.cut,
        "versions": episode.versions,
        "reports": [report_to_json(each) for each in episode.reports],
        "notes": [list(note) for note in episode.notes],
    }


def _number(reward: float) -> Json:
    """Return a reward; NaN and infinities, which JSON does not have, as text that is read as a number again."""
    return reward if math.isfinite(reward) else str(float(reward))


def report_to_json(report: StepReport) -> JsonObject:
    numbers, transcript = report.report
    return {
        "step": report.step,
        "agent": report.agent,
        "numbers": {name: list(given) if isinstance(given, Sequence) else given for name, given in numbers.items()},
        "transcript": [list(line) for line in transcript],
    }


def episode_from_json(data: object) -> Episode:
    """Parse an episode; raise FormatError with the first problem."""
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise FormatError(f"it is not a Mosaic episode (its 'format' is not '{FORMAT}')")
    if data.get("version") != VERSION:
        raise FormatError(f"it has version {data.get('version')!r}; this Mosaic reads version {VERSION}")
    try:
        file = _EpisodeFile.model_validate(data, strict=False)
    except ValidationError as error:
        first = error.errors()[0]
        raise FormatError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}") from error
    if len(file.rewards) != len(file.actions):
        raise FormatError(f"it holds {len(file.actions)} steps of actions but {len(file.rewards)} of rewards")
    if file.digests and len(file.digests) != len(file.actions) + 1:
        raise FormatError(f"it holds {len(file.actions)} steps but {len(file.digests)} digests")
    return Episode(
        environment=file.environment,
        seed=file.seed,
        policies=file.policies,
        changes=[PolicyChange(*change) for change in file.changes],
        actions=[{agent: decode(action) for agent, action in actions.items()} for actions in file.actions],
        rewards=list(file.rewards),
        digests=file.digests,
        first_digest=file.first_digest,
        ends=file.ends,
        cut=file.cut,
        versions=file.versions,
        reports=[each.report() for each in file.reports],
        notes=[EpisodeNote(*note) for note in file.notes],
    )


def environment_of(episode: Episode) -> EnvironmentConfig:
    """Return the configuration of the env in which the episode was played."""
    try:
        return EnvironmentConfig.model_validate(dict(episode.environment))
    except ValidationError as error:
        raise FormatError(f"The episode's environment is invalid: {explain(error, EnvironmentConfig)}") from error


def save_episode(path: Path, episode: Episode) -> None:
    """Write the file atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, json.dumps(episode_to_json(episode)), mode=0o600)


def load_episode(path: Path) -> Episode:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return episode_from_json(data)
    except FileNotFoundError as error:
        raise InputError(f"There is no episode file '{path}'. Record one with: mosaic play ENV … --record") from error
    except IsADirectoryError as error:
        raise InputError(f"'{path}' is a folder; name an episode file in it.") from error
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise FormatError(f"'{path}' is not a complete episode file: {error}") from error
    except FormatError as error:
        raise FormatError(f"'{path}' cannot be read: {error}.") from error


def encode(action: Action) -> Json:
    """Encode an action as JSON, with its type wherever JSON alone would lose it."""
    if isinstance(action, np.ndarray):
        return {"dtype": str(action.dtype), "array": action.tolist()}
    if isinstance(action, np.generic):
        number: Json = action.item()
        return number
    if isinstance(action, tuple | list):
        return {"tuple": [encode(part) for part in action]}
    if isinstance(action, dict):
        return {"dict": {key: encode(part) for key, part in action.items()}}
    plain: Json = action
    return plain


def _dtype(name: object) -> np.dtype[np.generic]:
    """Return the dtype of a plain number; others carry their own size, and a few bytes could ask for gigabytes."""
    if not isinstance(name, str) or name not in _DTYPES:
        raise FormatError(f"an action has the type {name!r}; actions have one of {', '.join(_DTYPES)}")
    return np.dtype(name)


def decode(data: object) -> Action:
    if not isinstance(data, dict):
        return data
    try:
        if "array" in data:
            return np.asarray(data["array"], _dtype(data["dtype"]))
        if "tuple" in data:
            return tuple(map(decode, data["tuple"]))
        return {key: decode(part) for key, part in data["dict"].items()}
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        raise FormatError(f"an action is damaged: {shown(data)}") from error


@dataclass(frozen=True, slots=True)
class Difference:
    """First Turn that differs from the recorded one: 0 is the one after reset, n the one after n steps."""

    step: int
    what: str


def replay(env: Env, episode: Episode, on_turn: Callable[[int, Turn], None] | None = None) -> Difference | None:
    """Replay the recorded actions until the first difference; `on_turn` receives every Turn with its number."""
    if not episode.digests:
        raise FormatError("The episode was recorded without digests, so a replay cannot be compared with it.")
    turn = env.reset(episode.seed)
    for step, actions in enumerate(episode.actions):
        if on_turn:
            on_turn(step, turn)
        difference = compare(episode, step, turn)
        if difference:
            return difference
        turn = _step(env, turn, actions, step)
    if on_turn:
        on_turn(episode.env_steps, turn)
    return compare(episode, episode.env_steps, turn)


def _step(env: Env, turn: Turn, actions: Mapping[AgentID, Action], step: int) -> Turn:
    """Take a recorded step; raise FormatError for actions that this env does not have."""
    for agent, action in actions.items():
        problem = objection(env.action_spaces[agent])(action, turn.action_masks.get(agent))
        if problem:
            raise FormatError(
                f"Step {step}: the recorded action of '{agent}' is not one of {env.spec.env_id}: {problem}."
            )
    return env.step(actions)


def compare(episode: Episode, step: int, turn: Turn) -> Difference | None:
    """Return how the Turn after `step` env steps differs from the recorded one, which must have a digest."""
    if step and not _same_rewards(turn.rewards, episode.rewards[step - 1]):
        return Difference(step, f"rewards are {dict(turn.rewards)}, recorded were {dict(episode.rewards[step - 1])}")
    if digest(turn) != episode.digests[step]:
        return Difference(step, "observations differ from the record")
    acted = episode.actions[step].keys() if step < episode.env_steps else turn.observations.keys()
    if acted != turn.observations.keys():
        asked, recorded = ", ".join(turn.observations) or "no agent", ", ".join(acted)
        return Difference(step, f"{recorded} acted in the record, but {asked} must act now")
    return None


def _same_rewards(now: Mapping[AgentID, float], recorded: Mapping[AgentID, float]) -> bool:
    """Return whether all rewards are equal; NaN counts as equal to NaN here."""
    return dict(now) == dict(recorded) or (
        now.keys() == recorded.keys()
        and all(
            reward == recorded[agent] or (math.isnan(reward) and math.isnan(recorded[agent]))
            for agent, reward in now.items()
        )
    )
