"""Controller for RLModules with pictures, memory or distributions of values. It needs torch and RLlib, but not Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from torch import Tensor

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.rllib.checkpoint.controllers import (
    PolicyFacts,
    deviation_limits,
    finished,
)
from mosaic.workers.rllib.checkpoint.policy_view import PolicyView, Shown
from mosaic.workers.rllib.config.algorithms import SQUASHED
from mosaic.workers.rllib.learner.modules import ILLEGAL, Batch, module_class

Tensors: TypeAlias = "Tensor | Mapping[str, Tensors]"


class ModulePolicyController:
    """Controller that plays RLlib's action without exploration, or draws one. Every agent has its own memory."""

    def __init__(self, path: Path, facts: PolicyFacts, request: PolicyRequest) -> None:
        self._sampling = request.sampling
        self._draws = torch.Generator().manual_seed(request.seed).get_state()
        self._view = view = PolicyView(path, facts, request)
        acts = request.spec.action_spaces
        self._actions = {agent: finished(acts[agent], facts, squashed=True) for agent in view.codes}
        self._module = module_class(facts["algorithm"])(
            observation_space=view.space,
            action_space=view.first.action_space,
            inference_only=True,
            model_config=dict(facts["model_config"]),
        )
        self._module.set_state(view.weights)
        self._facts, self._values = facts, facts["algorithm"] == "dqn"
        self._gaussian = isinstance(view.first.action_space, spaces.Box)
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
        batch: Batch = {Columns.OBS: _batched(self._view.numbers(agent, observation, mask))}
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
        return torch.tanh(drawn) if self._facts["algorithm"] in SQUASHED else drawn

    def _choices(self, inputs: Tensor, temperature: float) -> Tensor:
        illegal = inputs <= ILLEGAL
        inputs = torch.where(illegal, -torch.inf, inputs / temperature)
        kind: Any = TorchCategorical if self._values else self._module.get_exploration_action_dist_cls()
        drawn: Tensor = kind.from_logits(inputs).sample()
        return drawn


def _batched(shown: Shown) -> Tensors:
    """Return a batch of one observation."""
    if isinstance(shown, dict):
        return {name: torch.from_numpy(part[np.newaxis]) for name, part in shown.items()}
    return torch.from_numpy(shown[np.newaxis])


def _mapped(value: Tensors, change: Callable[[Tensor], Tensor]) -> Tensors:
    """Return the same structure with every tensor changed."""
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return change(value)
