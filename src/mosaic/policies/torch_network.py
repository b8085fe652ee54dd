"""Policy from any network that an engine can compute: images, memory, a user's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.vector.encoding import ActionCode, RowCode
from mosaic.models.engine import Bytes, Floats, Ints, Samples
from mosaic.policies.controller import Explanation
from mosaic.policies.network import Scaler


class _MemorySlots:
    """Memory slots of an engine, shared by the controllers of all episodes."""

    def __init__(self) -> None:
        self._free: list[int] = []
        self._count = 0

    def take(self) -> int:
        if self._free:
            return self._free.pop()
        self._count += 1
        return self._count - 1

    def give_back(self, slots: Iterable[int]) -> None:
        self._free.extend(slots)


class EnginePolicyController:
    """Controller that plays the most probable legal action, or samples one if a temperature is given.

    Every agent has its own memory, which ends with its episode.
    """

    has_value = True  # False: the outputs are action values

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
        self._all_slots = _MemorySlots()
        self._slots: dict[AgentID, int] = {}
        self._fresh: set[AgentID] = set()
        self._stream = engine.stream(0)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._fresh = {*agents, *self._slots}
        self._stream = self._engine.stream(seed)

    def forget(self, agent: AgentID) -> None:
        self._fresh.add(agent)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return self.act_together([(self, turn)])[0]

    def sibling(self) -> EnginePolicyController:
        made = copy(self)
        made._slots, made._fresh = {}, set()
        made._stream = self._engine.stream(0)
        return made

    def act_together(self, turns: Sequence[tuple[EnginePolicyController, Turn]]) -> list[dict[AgentID, Action]]:
        obs, mask, slots, first = self._lay_out(turns)
        act = np.zeros((len(obs), self._engine.architecture.head.parts), np.float32)
        if self._temperature is None:
            self._engine.greedy(obs, mask, slots, first, act)
        else:
            streams = [(each._stream, len(turn.observations)) for each, turn in turns]
            self._engine.sample(obs, mask, slots, first, act, self._temperature, streams)
        for each, turn in turns:
            each._fresh.difference_update(turn.observations)
        chosen = iter(act)
        return [{agent: self._actions[agent].action(next(chosen)) for agent in turn.observations} for _, turn in turns]

    @property
    def remembers(self) -> bool:
        """Return whether decisions depend on earlier observations."""
        return self._engine.architecture.memory is not None

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        if not self.has_value:
            return dict.fromkeys(turn.observations, Explanation(None, None))
        architecture = self._engine.architecture
        shares, values = self._engine.explain(*self._lay_out([(self, turn)]))
        discrete = architecture.head.kind == "categorical" and architecture.head.parts == 1
        return {
            agent: Explanation(
                shares[row].astype(np.float64) if discrete else None,
                None if architecture.critic_observation else float(values[row]),
            )
            for row, agent in enumerate(turn.observations)
        }

    def _lay_out(self, turns: Sequence[tuple[EnginePolicyController, Turn]]) -> tuple[Floats, Bytes, Ints, Bytes]:
        """Return rows, masks, memory slots and first steps of all agents that act now, turn after turn."""
        acting = [(each, agent, turn) for each, turn in turns for agent in turn.observations]
        architecture, count = self._engine.architecture, len(acting)
        obs = np.zeros((count, architecture.observation), np.float32)
        masked = any(turn.action_masks for _, turn in turns)
        mask = np.ones((count if masked else 0, architecture.head.width), np.uint8)
        for row, (_, agent, turn) in enumerate(acting):
            code = self._rows[agent]
            code.write(turn.observations[agent], obs[row, : code.width])
            if agent in turn.action_masks:
                mask[row] = turn.action_masks[agent]
        if self._scaler is not None:
            self._scaler.apply(obs)
        slots = np.array([each._slot(agent) for each, agent, _ in acting], np.int64)
        first = np.array([agent in each._fresh for each, agent, _ in acting], np.uint8)
        return obs, mask, slots, first

    def close(self) -> None:
        self._all_slots.give_back(self._slots.values())
        self._slots = {}

    def _slot(self, agent: AgentID) -> int:
        if agent not in self._slots:
            self._slots[agent] = self._all_slots.take()
            self._fresh.add(agent)  # another episode may have used it
        return self._slots[agent]
