"""What many episodes say about each agent and each policy."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from mosaic.core.ids import AgentID, PolicyID
from mosaic.evaluation.results import EpisodeResult
from mosaic.evaluation.statistics import Estimate, estimate_mean, finite_mean


@dataclass(frozen=True, slots=True)
class Summary:
    """Of one agent (whose policies are joined by " | ") or of one policy."""

    policy: str
    agents: tuple[AgentID, ...]
    episodes: int  # in which it took part
    returns: Estimate
    wins: int | None  # None where nobody wins
    draws: int | None
    losses: int | None

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "agents": list(self.agents),
            "episodes": self.episodes,
            "return_mean": self.returns.mean,
            "return_ci95": self.returns.ci95,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
        }


def by_agent(results: Sequence[EpisodeResult], first: Iterable[AgentID] = ()) -> dict[AgentID, Summary]:
    """`first`: agents in the order in which they shall stand; those that nobody could name ahead follow."""
    agents = dict.fromkeys([*first, *(agent for result in results for agent in result.returns)])
    return {agent: _summary(results, [{agent} & result.returns.keys() for result in results]) for agent in agents}


def by_policy(results: Sequence[EpisodeResult]) -> dict[PolicyID, Summary]:
    """A policy's agents of one episode are not independent: their mean is one value of its return."""
    policies = dict.fromkeys(policy for result in results for policy in result.policies.values())
    return {policy: _summary(results, [_agents_of(policy, result) for result in results]) for policy in policies}


def _agents_of(policy: PolicyID, result: EpisodeResult) -> set[AgentID]:
    return {agent for agent, its in result.policies.items() if its == policy}


def _summary(results: Sequence[EpisodeResult], chosen: Sequence[set[AgentID]]) -> Summary:
    """Of the chosen agents of each episode."""
    lived = [(result, agents) for result, agents in zip(results, chosen, strict=True) if agents]
    pairs = [(result, agent) for result, agents in lived for agent in result.returns if agent in agents]
    counts = Counter(result.outcomes[agent] for result, agent in pairs if result.outcomes is not None)
    competitive = any(result.outcomes is not None for result in results)
    return Summary(
        policy=" | ".join(dict.fromkeys(result.policies[agent] for result, agent in pairs)),
        agents=tuple(dict.fromkeys(agent for _, agent in pairs)),
        episodes=len(lived),
        returns=estimate_mean(
            [_mean_return(result, agents) for result, agents in lived], len({result.distinct for result, _ in lived})
        ),
        wins=counts["win"] if competitive else None,
        draws=counts["draw"] if competitive else None,
        losses=counts["loss"] if competitive else None,
    )


def _mean_return(result: EpisodeResult, agents: set[AgentID]) -> float:
    mean = finite_mean([result.returns[agent] for agent in agents])
    return math.nan if mean is None else mean
