"""Which agents learn which policy: the four policy configurations as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.envs.rows import ActionHead
from mosaic.envs.vector import VectorShape


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

    def check(self, shape: VectorShape) -> None:
        """Agents of one policy must see and act alike."""
        for policy, name in enumerate(self.names):
            members = [k for k, owner in enumerate(self.policy_of) if owner == policy]
            first = members[0]
            for other in members[1:]:
                if shape.widths[other] != shape.widths[first] or shape.heads[other] != shape.heads[first]:
                    raise InputError(
                        f"The agents {shape.agents[first]} and {shape.agents[other]} cannot share the policy '{name}': "
                        "their observations or actions differ. Use --policies independent, or map them to policies "
                        f"of their own: --agent {shape.agents[first]}=NAME --agent {shape.agents[other]}=OTHER."
                    )
        if self.central and shape.turn_based:
            raise InputError(
                "shared_value_function needs agents that act at the same time; in a turn-based env nobody else's "
                "observation is known. Use --policies parameter_sharing, independent or self_play."
            )
        if self.self_play and len(shape.agents) < 2:
            raise InputError("self_play needs at least two agents that learn. Use --policies parameter_sharing.")


def shared(agents: Sequence[AgentID], name: str = "shared", *, central: bool = False) -> Plan:
    return Plan((name,), (0,) * len(agents), (True,), central)


def independent(agents: Sequence[AgentID], *, central: bool = False) -> Plan:
    return Plan(tuple(agents), tuple(range(len(agents))), (True,) * len(agents), central)


def against_itself(agents: Sequence[AgentID], name: str = "learner") -> Plan:
    return Plan((name,), (0,) * len(agents), (True,), self_play=True)
