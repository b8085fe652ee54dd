"""Record of an evaluation: rewards and results by agent, by policy and by opponent, each with its name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import TypeAlias

from mosaic.core.episode import Episode, Outcome, outcomes
from mosaic.core.ids import AgentID, JsonObject, PolicyID
from mosaic.envs.env import EnvSpec

LEAGUE = "league"  # name of the opponent where snapshots of the learner play


@dataclass(frozen=True, slots=True)
class Participant:
    """Policy of one agent in an episode."""

    policy: PolicyID  # its name in the record
    source: PolicyID  # its name for the runner
    learns: bool = False
    snapshot: PolicyID = ""  # which one, if it is a snapshot of the learner
    replaces: bool = False  # an opponent of this evaluation, in place of the policy of the training


LineUp: TypeAlias = Mapping[AgentID, Participant]


@dataclass(frozen=True, slots=True)
class PlayedEpisode:
    line_up: LineUp
    episode: Episode
    ends: Mapping[AgentID, Outcome]  # empty where the game has no winner


def played_episode(line_up: LineUp, episode: Episode, spec: EnvSpec) -> PlayedEpisode:
    facts = spec.facts
    ends = outcomes(episode.returns, facts.win_above) if facts.competitive and episode.returns else {}
    return PlayedEpisode(line_up, episode, ends)


def evaluation_record(played: Sequence[PlayedEpisode], agents: Sequence[AgentID], opponent: str | None) -> JsonObject:
    """Return the fields of an event of kind `evaluation`.

    `agents` are all agents of the env. Those without `opponent` are played by the learners among themselves.
    """
    learning = [(each, agent) for each in played for agent, one in each.line_up.items() if one.learns]
    total = _summary(learning)
    record: JsonObject = {
        "episodes": len(played),
        **{f"episode_{name}": total[name] for name in ("reward_mean", "reward_min", "reward_max")},
        "episode_len_mean": fmean(each.episode.env_steps for each in played),
        "agents": {agent: _agent(agent, played) for agent in agents},
        "policies": _policies(played),
    }
    if opponent is None:
        return record
    record |= _chosen(total, "wins", "draws", "losses", "win_rate")
    record |= {"opponent": opponent, "against": {opponent: _chosen(total, "reward_mean", "win_rate")}}
    if snapshots := _snapshots(played):
        record["snapshots"] = snapshots
    return record


def _chosen(summary: JsonObject, *names: str) -> JsonObject:
    return {name: summary[name] for name in names if name in summary}


def _agent(agent: AgentID, played: Sequence[PlayedEpisode]) -> JsonObject:
    """Describe an agent in the episodes in which a learner plays it, or in all where none does.

    Several policies of an agent, in different episodes, are named together, and its own also in `policies`.
    """
    own = [each for each in played if each.line_up[agent].learns] or list(played)
    names = {other: list(dict.fromkeys(each.line_up[other].policy for each in own)) for other in own[0].line_up}
    others = {other: ", ".join(policies) for other, policies in names.items() if other != agent}
    several = {"policies": names[agent]} if len(names[agent]) > 1 else {}
    summary = _summary([(each, agent) for each in own])
    return {"policy": ", ".join(names[agent]), **several, "others": others, **summary}


def _policies(played: Sequence[PlayedEpisode]) -> JsonObject:
    names = dict.fromkeys(one.policy for each in played for one in each.line_up.values())
    return {
        name: _summary([(each, agent) for each in played for agent, one in each.line_up.items() if one.policy == name])
        for name in names
    }


def _snapshots(played: Sequence[PlayedEpisode]) -> list[JsonObject]:
    """Describe the learners' results against each snapshot."""
    names = dict.fromkeys(one.snapshot for each in played for one in each.line_up.values() if one.snapshot)
    found: list[JsonObject] = []
    for name in names:
        met = [each for each in played if any(one.snapshot == name for one in each.line_up.values())]
        sides = [(each, agent) for each in met for agent, one in each.line_up.items() if one.learns]
        found.append({"snapshot": name, **_summary(sides)})
    return found


def _summary(sides: Iterable[tuple[PlayedEpisode, AgentID]]) -> JsonObject:
    """Summarise returns and results of agents; an agent that an episode does not have is left out."""
    there = [(each, agent) for each, agent in sides if agent in each.episode.returns]
    returns = [each.episode.returns[agent] for each, agent in there]
    found: JsonObject = {
        "episodes": len(there),
        "reward_mean": fmean(returns) if returns else None,
        "reward_min": min(returns, default=None),
        "reward_max": max(returns, default=None),
    }
    ends = [each.ends[agent] for each, agent in there if agent in each.ends]
    if ends:
        found |= {"wins": ends.count("win"), "draws": ends.count("draw"), "losses": ends.count("loss")}
        found["win_rate"] = ends.count("win") / len(ends)
    return found
