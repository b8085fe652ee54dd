"""Turn: the result of an environment's reset or step."""

from __future__ import annotations

import zlib
from collections.abc import Container, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID

Action: TypeAlias = Any  # a member of the agent's action space
Observation: TypeAlias = Any  # a member of the agent's observation space; never modified once returned
Mask: TypeAlias = NDArray[np.bool_]  # binding: an action whose entry is False never reaches the env


class Turn(NamedTuple):
    """Agents that must act now, and the results of the last step.

    `observations` is empty exactly when the episode is over. `rewards`, `terminated` and `truncated` have the same
    keys: the agents that lived through the step or were created in it (after `reset`: those present, with 0.0 and
    False). An agent that ended in this step appears in `final_observations`, once. Never compare Turns with ==: use
    digest().
    """

    observations: Mapping[AgentID, Observation]  # exactly the agents that must act now, in the env's order
    action_masks: Mapping[AgentID, Mask]  # only agents with restricted actions
    rewards: Mapping[AgentID, float]  # of this step alone, including agents that do not act
    terminated: Mapping[AgentID, bool]
    truncated: Mapping[AgentID, bool]
    final_observations: Mapping[AgentID, Observation]
    infos: Mapping[AgentID, Mapping[str, object]]  # of acting and ended agents

    @property
    def over(self) -> bool:
        return not self.observations

    def ended(self, agent: AgentID) -> bool:
        return bool(self.terminated.get(agent) or self.truncated.get(agent))

    def only(self, agents: Container[AgentID]) -> Turn:
        """Return the part of this Turn that these agents may see."""
        parts: Any = ({agent: value for agent, value in part.items() if agent in agents} for part in self)
        return Turn(*parts)


def digest(turn: Turn) -> int:
    """Return a checksum of everything in a Turn except infos."""
    crc = 0
    for part in turn[:-1]:
        for agent in part:  # insertion order is part of the contract
            crc = digest_value(part[agent], zlib.crc32(agent.encode(), crc))
    return crc


def digest_value(value: object, crc: int = 0) -> int:
    """Return a checksum of a member of any space."""
    if isinstance(value, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(value).view(np.uint8).data if value.ndim else value.tobytes(), crc)
    if isinstance(value, np.generic):  # a numpy scalar and the Python number it equals are the same value
        value = value.item()
    if isinstance(value, Mapping):
        for key in value:
            crc = digest_value(value[key], zlib.crc32(str(key).encode(), crc))
        return crc
    if isinstance(value, tuple | list):
        for item in value:
            crc = digest_value(item, crc)
        return crc
    return zlib.crc32(repr(value).encode(), crc)
