"""Which agents learn which policy: the four policy configurations as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic.core.ids import AgentID
from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape


@dataclass(frozen=True, slots=True)
class Plan:
    """Policies by number, in the order of `names`."""

    names: tuple[str, ...]
    policy_of: tuple[int, ...]  # for each agent of the vector
    trained: tuple[bool, ...]  # for each policy
    central: bool = False  # the critic sees all agents
    self_play: bool = False  # one policy on all chairs, and a league of its past

    def agents_of(self, policy: int, agents: Sequence[AgentID]) -> tuple[AgentID, ...]:
        return tuple(agent for agent, owner in zip(agents, self.policy_of, strict=True) if owner == policy)

    def width_of(self, policy: int, shape: VectorShape) -> int:
        return shape.widths[self.policy_of.index(policy)]

    def head_of(self, policy: int, shape: VectorShape) -> ActionHead:
        return shape.heads[self.policy_of.index(policy)]

    def uniform(self, shape: VectorShape) -> bool:
        """Whether one architecture fits all policies."""
        return len(set(shape.widths)) == 1 and len(set(shape.heads)) == 1
