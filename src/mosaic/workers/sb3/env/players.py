"""Players of the agents that no slot acts for: fixed policies, policies that are not trained, and the learner itself.

In a turn-based game each env has one seat that learns, and the learner's current policy plays the other seats there.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import action_code
from mosaic.runners.fixed_policies import ControllerOthers

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


class ModelOthers:
    """Player of agents with SB3 models, and of further agents with the controllers of fixed policies.

    `frozen` agents are played in every env. `seats` are the agents that learn in turn: env number i trains the seat
    i % len(seats), and `learner` plays the other seats there. Models are set before the first step.
    """

    def __init__(
        self,
        spec: EnvSpec,
        fixed: ControllerOthers | None,
        frozen: Collection[AgentID] = (),
        seats: tuple[AgentID, ...] = (),
    ) -> None:
        self._fixed, self._seats = fixed, seats
        self.agents = (*(fixed.agents if fixed else ()), *frozen)
        self.models: dict[AgentID, BaseAlgorithm] = {}
        self._decode = {agent: action_code(spec.action_spaces[agent]).action for agent in (*frozen, *seats)}
        self._memory: dict[tuple[int, AgentID], Any] = {}

    def plays(self, index: int) -> Collection[AgentID]:
        seat = self._seats[index % len(self._seats)] if self._seats else None
        return (*self.agents, *(agent for agent in self._seats if agent != seat))

    def begin(self, index: int, seed: int) -> None:
        if self._fixed is not None:
            self._fixed.begin(index, seed)
        for key in [key for key in self._memory if key[0] == index]:
            del self._memory[key]

    def act(self, index: int, turn: Turn) -> Mapping[AgentID, Action]:
        actions = {} if self._fixed is None else dict(self._fixed.act(index, turn))
        for agent in self.plays(index):
            if agent in turn.observations and agent in self._decode:
                actions[agent] = self._predict(index, agent, turn)
        return actions

    def _predict(self, index: int, agent: AgentID, turn: Turn) -> Action:
        key = index, agent
        masks = {"action_masks": turn.action_masks[agent]} if agent in turn.action_masks else {}
        chosen, self._memory[key] = self.models[agent].predict(
            turn.observations[agent],
            self._memory.get(key),
            np.array([key not in self._memory]),
            deterministic=False,
            **masks,
        )
        return self._decode[agent](np.asarray(chosen, np.float32).reshape(-1))

    def close(self) -> None:
        if self._fixed is not None:
            self._fixed.close()
