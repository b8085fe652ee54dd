"""An exported module's file: its weights, and what it sees of each agent."""

from __future__ import annotations

from pathlib import Path
from typing import TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Mask, Observation
from mosaic.envs.env import EnvSpec
from mosaic.envs.spaces import MASK
from mosaic.models.weights_file import check_finite
from mosaic.policies.controller import PolicyRequest
from mosaic.policies.network import Scaler
from mosaic.workers.rllib.checkpoint.controllers import MODULE, PolicyFacts, read_scalers, scaler_of
from mosaic.workers.rllib.env.encoding import OBSERVATION, AgentCode, agent_code

Shown: TypeAlias = "NDArray[np.float32] | dict[str, NDArray[np.generic]]"


class PolicyView:
    """Weights of a module, and the agents whose observations and actions are those of training."""

    def __init__(self, path: Path, facts: PolicyFacts, request: PolicyRequest) -> None:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        spec = request.spec
        try:
            arrays = load_file(path)
        except (SafetensorError, OSError) as error:
            raise FormatError(f"{path} is not a safetensors file: {error}") from error
        for name, array in arrays.items():
            check_finite(array, f"{path}: the numbers of '{name}'", FormatError)
        self.weights = {name.removeprefix(MODULE): array for name, array in arrays.items() if name.startswith(MODULE)}
        self._masked = bool(facts["masked"])
        self.scalers = read_scalers(arrays)
        trained = [agent for agent in facts["agents"] if agent in spec.possible_agents]
        self.first = _code(facts, spec, [*trained, *request.agents][0])  # its spaces are those of training
        codes = {agent: _code(facts, spec, agent) for agent in spec.possible_agents}
        self.codes = {agent: code for agent, code in codes.items() if _alike(code, self.first)}

    @property
    def space(self) -> Space[object]:
        """Space of what the module sees."""
        code = self.first
        if not (self._masked and code.choices):
            return code.observation_space
        mask = spaces.Box(0, 1, (code.choices,), np.int8)
        return spaces.Dict({OBSERVATION: code.observation_space, MASK: mask})

    def code_of(self, agent: AgentID) -> AgentCode:
        if agent not in self.codes:
            raise InputError(f"This policy was not trained for what '{agent}' sees or does in this env.")
        return self.codes[agent]

    def numbers(self, agent: AgentID, observation: Observation, mask: Mask | None) -> Shown:
        """Return what the module sees, as arrays."""
        code = self.code_of(agent)
        row: NDArray[np.float32] = code.read(observation)
        scaler = scaler_of(self.scalers, agent)
        if scaler is not None:
            Scaler(*scaler).apply(row)
        if not (self._masked and code.choices):
            return row
        legal = np.ones(code.choices, np.int8) if mask is None else mask.astype(np.int8)
        return {OBSERVATION: row, MASK: legal}


def _code(facts: PolicyFacts, spec: EnvSpec, agent: AgentID) -> AgentCode:
    return agent_code(spec.observation_spaces[agent], spec.action_spaces[agent], facts["picture_size"])


def _alike(code: AgentCode, other: AgentCode) -> bool:
    return code.observation_space == other.observation_space and code.action_space == other.action_space
