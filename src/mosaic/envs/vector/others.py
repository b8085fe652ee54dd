"""Protocol of the players of non-learning agents in a vector env."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn


class Others(Protocol):
    """Player of some agents inside a vector env, whose slots then hold only the learner's agents."""

    @property
    def agents(self) -> Collection[AgentID]: ...  # played in every env: they have no rows

    def plays(self, index: int) -> Collection[AgentID]: ...  # in env number `index`: those, and perhaps more

    def begin(self, index: int, seed: int) -> None: ...  # env number `index` begins an episode

    def act(self, index: int, turn: Turn) -> Mapping[AgentID, Action]: ...  # exactly its agents of turn.observations

    def close(self) -> None: ...
