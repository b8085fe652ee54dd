"""Episode records of env runners, and their returns per agent and per policy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isnan
from typing import Any, NamedTuple, NotRequired, TypeAlias, TypedDict

from mosaic.core.ids import AgentID

EPISODES = "mosaic_episodes"  # key of the records of ended episodes below "env_runners" in RLlib's results
ALERTS = "mosaic_alerts"  # key of the alerts of the run, in the same place
OTHERS_STEPS = "mosaic_others_steps"  # key of the env steps in which no learner acted, in the same place

RllibResult: TypeAlias = Mapping[str, object]  # nested dictionaries of numbers, as `Algorithm.train` returns them


class EpisodeRecord(TypedDict):
    """Record of an ended episode, as plain data: it is sent from an env runner to the driver as a metric."""

    length: int  # env steps
    returns: dict[AgentID, float]  # of agents that learn
    played: dict[AgentID, float]  # returns of agents played by fixed policies inside the env
    policies: dict[AgentID, str]  # policies of the agents that learn; in self-play also frozen snapshots
    stage: NotRequired[int]  # of a curriculum, counted from 1
    numbers: NotRequired[dict[AgentID, dict[str, float]]]  # in the info of an agent's last step


class Sampled(NamedTuple):
    """Sampling of env runners since the end of the last iteration."""

    env_steps: int
    episodes: int
    records: list[EpisodeRecord]


NOTHING_SAMPLED = Sampled(0, 0, [])


def records_of(result: RllibResult) -> list[EpisodeRecord]:
    """Return the records of the episodes that ended in this iteration."""
    return _items(result, EPISODES)


def alerts_of(result: RllibResult) -> list[str]:
    return _items(result, ALERTS)


def _items(result: RllibResult, name: str) -> list[Any]:
    """Return the items that env runners logged under a name.

    RLlib returns a list only of several items: a single one comes bare, none as NaN or not at all.
    """
    runners = result.get("env_runners")
    found = runners.get(name) if isinstance(runners, Mapping) else None
    if found is None or (isinstance(found, float) and isnan(found)):
        return []
    return found if isinstance(found, list) else [found]


def returns_by_agent(records: Iterable[EpisodeRecord]) -> dict[AgentID, list[float]]:
    found: dict[AgentID, list[float]] = {}
    for record in records:
        for agent, value in record["returns"].items():
            found.setdefault(agent, []).append(value)
    return found


def returns_by_policy(records: Iterable[EpisodeRecord]) -> dict[str, list[float]]:
    """Return one return per agent and episode, so that a policy's mean is an agent's, however many agents share it."""
    found: dict[str, list[float]] = {}
    for record in records:
        for agent, value in record["returns"].items():
            found.setdefault(record["policies"][agent], []).append(value)
    return found


def joined(
    returns: Sequence[Mapping[AgentID, float]],
    length: int,
    policies: Mapping[AgentID, str],
    played: Mapping[AgentID, float],
) -> EpisodeRecord:
    """Return the record of an episode that RLlib cut into pieces."""
    total: dict[AgentID, float] = {}
    for piece in returns:
        for agent, value in piece.items():
            total[agent] = total.get(agent, 0.0) + float(value)
    return EpisodeRecord(length=length, returns=total, played=dict(played), policies=dict(policies))
