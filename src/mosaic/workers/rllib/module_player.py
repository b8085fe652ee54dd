"""An RLModule in an agent's place: pictures, memory, distributions of values. It needs torch and RLlib, but no Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from ray.rllib.core.columns import Columns
from torch import Tensor

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.spaces import MASK
from mosaic.policies.network import Scaler
from mosaic.workers.rllib.exported import MODULE
from mosaic.workers.rllib.modules import module_class
from mosaic.workers.rllib.playing import finished, read_scalers, scaler_of
from mosaic.workers.rllib.seat_code import SeatCode, seat_code
from mosaic.workers.rllib.seats import OBSERVATION


class ModulePolicyController:
    """Plays the action that RLlib takes where it does not explore. Every agent has a memory of its own."""

    def __init__(self, path: Path, facts: Mapping[str, Any], spec: EnvSpec) -> None:
        from safetensors.numpy import load_file

        arrays = load_file(path)
        self._masked = bool(facts["masked"])
        self._scalers = read_scalers(arrays)
        first = self._seat(facts, spec, facts["agents"][0])
        seats = {agent: self._seat(facts, spec, agent) for agent in spec.possible_agents}
        self._seats = {agent: seat for agent, seat in seats.items() if _alike(seat, first)}
        self._actions = {agent: finished(spec.action_spaces[agent], facts) for agent in self._seats}
        self._module = module_class(facts["algorithm"])(
            observation_space=self._shown(first),
            action_space=first.action_space,
            inference_only=True,
            model_config=dict(facts["model_config"]),
        )
        self._module.set_state(
            {name.removeprefix(MODULE): array for name, array in arrays.items() if name.startswith(MODULE)}
        )
        self._fresh: Any = self._module.get_initial_state()
        self._memory: dict[AgentID, Any] = {}

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._memory.clear()

    def forget(self, agent: AgentID) -> None:
        self._memory.pop(agent, None)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {
            agent: self._act(agent, observation, turn.action_masks.get(agent))
            for agent, observation in turn.observations.items()
        }

    def close(self) -> None:
        pass

    def _act(self, agent: AgentID, observation: Observation, mask: Mask | None) -> Action:
        if agent not in self._seats:
            raise InputError(f"This policy was not trained for what '{agent}' sees or does in this env.")
        seat = self._seats[agent]
        batch: dict[str, Any] = {Columns.OBS: self._see(agent, seat, observation, mask)}
        if self._fresh:
            memory = self._memory.get(agent, self._fresh)
            batch = {
                Columns.OBS: _mapped(batch[Columns.OBS], lambda part: part.unsqueeze(1)),
                Columns.STATE_IN: _mapped(memory, lambda part: torch.as_tensor(part).unsqueeze(0)),
            }
        with torch.no_grad():
            answer = self._module.forward_inference(batch)
            chosen = self._chosen(answer)
        if self._fresh:
            self._memory[agent] = _mapped(answer[Columns.STATE_OUT], lambda part: part[0])
        row = chosen.reshape(-1).numpy().astype(np.float32)
        return self._actions[agent].action(row)

    def _chosen(self, answer: Mapping[str, Any]) -> Tensor:
        if Columns.ACTIONS in answer:
            actions: Tensor = answer[Columns.ACTIONS]
            return actions
        dist = self._module.get_inference_action_dist_cls().from_logits(answer[Columns.ACTION_DIST_INPUTS])
        likeliest: Tensor = dist.to_deterministic().sample()
        return likeliest

    def _see(self, agent: AgentID, seat: SeatCode, observation: Observation, mask: Mask | None) -> Any:
        row: NDArray[np.float32] = seat.read(observation)
        scaler = scaler_of(self._scalers, agent)
        if scaler is not None:
            Scaler(*scaler).apply(row)
        shown = torch.from_numpy(row[np.newaxis])
        if not (self._masked and seat.choices):
            return shown
        legal = np.ones(seat.choices, np.int8) if mask is None else mask.astype(np.int8)
        return {OBSERVATION: shown, MASK: torch.from_numpy(legal[np.newaxis])}

    def _shown(self, seat: SeatCode) -> Space[Any]:
        if not (self._masked and seat.choices):
            return seat.observation_space
        mask = spaces.Box(0, 1, (seat.choices,), np.int8)
        return spaces.Dict({OBSERVATION: seat.observation_space, MASK: mask})

    @staticmethod
    def _seat(facts: Mapping[str, Any], spec: EnvSpec, agent: AgentID) -> SeatCode:
        return seat_code(spec.observation_spaces[agent], spec.action_spaces[agent], facts["picture_size"])


def _alike(seat: SeatCode, other: SeatCode) -> bool:
    return seat.observation_space == other.observation_space and seat.action_space == other.action_space


def _mapped(value: Any, change: Any) -> Any:
    """The same structure with every tensor changed."""
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return change(value)
