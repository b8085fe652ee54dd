"""Controller for RLModules with pictures, memory or distributions of values. It needs torch and RLlib, but not Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from torch import Tensor

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.spaces import MASK
from mosaic.models.weights_file import check_finite
from mosaic.policies.controller import PolicyRequest
from mosaic.policies.network import Scaler
from mosaic.workers.rllib.checkpoint.controllers import (
    MODULE,
    PolicyFacts,
    deviation_limits,
    finished,
    read_scalers,
    scaler_of,
)
from mosaic.workers.rllib.env.encoding import OBSERVATION, AgentCode, agent_code
from mosaic.workers.rllib.learner.modules import ILLEGAL, Batch, module_class

Tensors: TypeAlias = "Tensor | Mapping[str, Tensors]"


class ModulePolicyController:
    """Controller that plays RLlib's action without exploration, or draws one. Every agent has its own memory."""

    def __init__(self, path: Path, facts: PolicyFacts, request: PolicyRequest) -> None:
        from safetensors.numpy import load_file

        spec, self._sampling = request.spec, request.sampling
        self._draws = torch.Generator().manual_seed(request.seed).get_state()
        arrays = load_file(path)
        for name, array in arrays.items():
            check_finite(array, f"{path}: the numbers of '{name}'")
        self._masked = bool(facts["masked"])
        self._scalers = read_scalers(arrays)
        trained = [agent for agent in facts["agents"] if agent in spec.possible_agents]
        first = self._code(facts, spec, [*trained, *request.agents][0])  # its spaces are those of training
        codes = {agent: self._code(facts, spec, agent) for agent in spec.possible_agents}
        self._codes = {agent: code for agent, code in codes.items() if _alike(code, first)}
        self._actions = {agent: finished(spec.action_spaces[agent], facts, squashed=True) for agent in self._codes}
        self._module = module_class(facts["algorithm"])(
            observation_space=self._shown(first),
            action_space=first.action_space,
            inference_only=True,
            model_config=dict(facts["model_config"]),
        )
        self._module.set_state(
            {name.removeprefix(MODULE): array for name, array in arrays.items() if name.startswith(MODULE)}
        )
        self._facts, self._values = facts, facts["algorithm"] == "dqn"
        self._gaussian = isinstance(first.action_space, spaces.Box)
        self._fresh: Tensors = self._module.get_initial_state()
        self._memory: dict[AgentID, Tensors] = {}

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._memory.clear()
        self._draws = torch.Generator().manual_seed(seed).get_state()

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
        if agent not in self._codes:
            raise InputError(f"This policy was not trained for what '{agent}' sees or does in this env.")
        code = self._codes[agent]
        batch: Batch = {Columns.OBS: self._see(agent, code, observation, mask)}
        if self._fresh:
            memory = self._memory.get(agent, self._fresh)
            batch = {
                Columns.OBS: _mapped(batch[Columns.OBS], lambda part: part.unsqueeze(1)),
                Columns.STATE_IN: _mapped(memory, lambda part: torch.as_tensor(part).unsqueeze(0)),
            }
        with torch.no_grad():
            draws_values = self._values and self._sampling is not None
            answer = self._module.compute_q_values(batch) if draws_values else self._module.forward_inference(batch)
            chosen = self._chosen(answer)
        if self._fresh:
            self._memory[agent] = _mapped(answer[Columns.STATE_OUT], lambda part: part[0])
        row = chosen.reshape(-1).numpy().astype(np.float32)
        return self._actions[agent].action(row)

    def _chosen(self, answer: Batch) -> Tensor:
        if self._sampling is not None:
            return self._drawn(answer, self._sampling.temperature or 1.0)
        if Columns.ACTIONS in answer:
            actions: Tensor = answer[Columns.ACTIONS]
            return actions
        dist = self._module.get_inference_action_dist_cls().from_logits(answer[Columns.ACTION_DIST_INPUTS])
        likeliest: Tensor = dist.to_deterministic().sample()
        return likeliest

    def _drawn(self, answer: Batch, temperature: float) -> Tensor:
        """Draw from this controller's own random stream: RLlib's distributions use only the global one."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._draws)
            inputs: Tensor = answer[QF_PREDS if self._values else Columns.ACTION_DIST_INPUTS]
            drawn = self._numbers(inputs, temperature) if self._gaussian else self._choices(inputs, temperature)
            self._draws = torch.get_rng_state()
        return drawn

    def _numbers(self, inputs: Tensor, temperature: float) -> Tensor:
        means, deviations = inputs.chunk(2, dim=-1)
        low, high = deviation_limits(self._facts)
        drawn = means + temperature * deviations.clamp(low, high).exp() * torch.randn_like(means)
        return torch.tanh(drawn) if self._facts["algorithm"] == "sac" else drawn

    def _choices(self, inputs: Tensor, temperature: float) -> Tensor:
        illegal = inputs <= ILLEGAL
        inputs = torch.where(illegal, -torch.inf, inputs / temperature)
        kind: Any = TorchCategorical if self._values else self._module.get_exploration_action_dist_cls()
        drawn: Tensor = kind.from_logits(inputs).sample()
        return drawn

    def _see(self, agent: AgentID, code: AgentCode, observation: Observation, mask: Mask | None) -> Tensors:
        row: NDArray[np.float32] = code.read(observation)
        scaler = scaler_of(self._scalers, agent)
        if scaler is not None:
            Scaler(*scaler).apply(row)
        shown = torch.from_numpy(row[np.newaxis])
        if not (self._masked and code.choices):
            return shown
        legal = np.ones(code.choices, np.int8) if mask is None else mask.astype(np.int8)
        return {OBSERVATION: shown, MASK: torch.from_numpy(legal[np.newaxis])}

    def _shown(self, code: AgentCode) -> Space[object]:
        if not (self._masked and code.choices):
            return code.observation_space
        mask = spaces.Box(0, 1, (code.choices,), np.int8)
        return spaces.Dict({OBSERVATION: code.observation_space, MASK: mask})

    @staticmethod
    def _code(facts: PolicyFacts, spec: EnvSpec, agent: AgentID) -> AgentCode:
        return agent_code(spec.observation_spaces[agent], spec.action_spaces[agent], facts["picture_size"])


def _alike(code: AgentCode, other: AgentCode) -> bool:
    return code.observation_space == other.observation_space and code.action_space == other.action_space


def _mapped(value: Tensors, change: Callable[[Tensor], Tensor]) -> Tensors:
    """Return the same structure with every tensor changed."""
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return change(value)
