"""Record of one episode: enough to replay it bit for bit and to attribute every action."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from mosaic.core.ids import AgentID, Json, PolicyID
from mosaic.core.turn import Action

End: TypeAlias = Literal["terminated", "truncated", "terminated+truncated"]
Outcome: TypeAlias = Literal["win", "draw", "loss"]


class PolicyChange(NamedTuple):
    """Change of the policy that acts for an agent, from env step `step` (counted from 0) on."""

    step: int
    agent: AgentID
    policy: PolicyID


@dataclass(slots=True)
class Episode:
    """Record of one episode.

    Lists have one entry per env step. Observations are not kept (one pistonball episode would take 400 MB).
    """

    environment: Mapping[str, Json]  # fields of the EnvironmentConfig that recreates the env
    seed: int
    policies: dict[AgentID, PolicyID]  # each agent's first policy; agents created later are added when they act
    changes: list[PolicyChange] = field(default_factory=list)
    actions: list[Mapping[AgentID, Action]] = field(default_factory=list)
    rewards: list[Mapping[AgentID, float]] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)  # of every Turn, including the first; empty if not requested
    first_digest: int = 0  # of the first Turn; always set
    ends: dict[AgentID, tuple[int, End]] = field(default_factory=dict)  # step and kind; missing agents outlived it
    cut: bool = False  # stopped by the runner at max_steps: agents still alive count as truncated
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def env_steps(self) -> int:
        return len(self.actions)

    @property
    def agent_steps(self) -> int:
        return sum(map(len, self.actions))

    @property
    def returns(self) -> dict[AgentID, float]:
        total = dict.fromkeys(self.policies, 0.0)
        for rewards in self.rewards:
            for agent, reward in rewards.items():
                total[agent] = total.get(agent, 0.0) + reward
        return total

    def policy_of(self, agent: AgentID, step: int) -> PolicyID:
        """Return the policy that acted for the agent in this env step."""
        policy = self.policies[agent]
        for change in self.changes:
            if change.agent == agent and change.step <= step:
                policy = change.policy
        return policy


def outcomes(returns: Mapping[AgentID, float], win_above: float = -math.inf) -> dict[AgentID, Outcome]:
    """Return win, draw or loss for each agent of a competitive game.

    The highest return wins alone or shares a draw. Returns are compared, not their signs: PettingZoo pays an illegal
    move -1 and 0. Where no agent earned more than `win_above` (gin rummy without a knock), all draw.
    """
    best = max(returns.values())
    if best <= win_above:
        return dict.fromkeys(returns, "draw")
    top: Outcome = "win" if sum(value == best for value in returns.values()) == 1 else "draw"
    return {agent: top if value == best else "loss" for agent, value in returns.items()}
