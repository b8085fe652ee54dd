"""Policy from any network that an engine can compute: images, memory, a user's own."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.vector.encoding import ActionCode, RowCode
from mosaic.models.engine import Samples
from mosaic.policies.network import Scaler


class EnginePolicyController:
    """Controller that plays the most probable legal action, or samples one if a temperature is given.

    Every agent has its own memory, which ends with its episode.
    """

    def __init__(
        self,
        engine: Samples,
        rows: Mapping[AgentID, RowCode],
        actions: Mapping[AgentID, ActionCode],
        scaler: tuple[NDArray[np.float32], NDArray[np.float32]] | None = None,
        temperature: float | None = None,
    ) -> None:
        self._engine, self._rows, self._actions = engine, rows, actions
        self._scaler = None if scaler is None else Scaler(*scaler)
        self._temperature = temperature
        self._slots: dict[AgentID, int] = {}
        self._fresh: set[AgentID] = set()

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._fresh = {*agents, *self._slots}
        self._engine.seed_samples(seed)

    def forget(self, agent: AgentID) -> None:
        self._fresh.add(agent)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        agents = list(turn.observations)
        architecture = self._engine.architecture
        obs = np.zeros((len(agents), architecture.observation), np.float32)
        masked = bool(turn.action_masks)
        mask = np.ones((len(agents) if masked else 0, architecture.head.width), np.uint8)
        for row, agent in enumerate(agents):
            code = self._rows[agent]
            code.write(turn.observations[agent], obs[row, : code.width])
            if agent in turn.action_masks:
                mask[row] = turn.action_masks[agent]
        if self._scaler is not None:
            self._scaler.apply(obs)
        slots = np.array([self._slots.setdefault(agent, len(self._slots)) for agent in agents], np.int64)
        first = np.array([agent in self._fresh for agent in agents], np.uint8)
        act = np.zeros((len(agents), architecture.head.parts), np.float32)
        if self._temperature is None:
            self._engine.greedy(obs, mask, slots, first, act)
        else:
            self._engine.sample(obs, mask, slots, first, act, self._temperature)
        self._fresh.difference_update(agents)
        return {agent: self._actions[agent].action(row) for agent, row in zip(agents, act, strict=True)}

    def close(self) -> None:
        pass
