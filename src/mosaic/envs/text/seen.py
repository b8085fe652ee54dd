"""One agent's part of a Turn, as text views receive it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from mosaic.core.ids import AgentID
from mosaic.core.turn import Observation
from mosaic.envs.env import EnvSpec


class SeenByAgent(NamedTuple):
    """Observation of one agent and its infos; other agents' are out of reach."""

    spec: EnvSpec
    agent: AgentID
    observation: Observation
    info: Mapping[str, object]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.observation)

    @property
    def place(self) -> int:
        """Return the agent's index among the env's agents."""
        return self.spec.possible_agents.index(self.agent)


TextView: TypeAlias = Callable[[SeenByAgent], str | None]  # None: the options of the env changed its observations
