"""Controller for RLModules with pictures, memory or distributions of values. It needs torch and RLlib, but not Ray."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from gymnasium import spaces
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical
from torch import Tensor

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.rllib.checkpoint.controllers import (
    PolicyFacts,
    deviation_limits,
    finished,
)
from mosaic.workers.rllib.checkpoint.policy_view import PolicyView
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
        return self.act_together([(self, turn)])[0]

    def sibling(self) -> ModulePolicyController:
        made = copy(self)
        made._memory = {}
        return made

    @torch.no_grad()
    def act_together(self, turns: Sequence[tuple[ModulePolicyController, Turn]]) -> list[dict[AgentID, Action]]:
        rows = [(each, agent, turn) for each, turn in turns for agent in turn.observations]
        batch: Batch = {Columns.OBS: _stacked([self._shown(agent, turn) for _, agent, turn in rows])}
        if self._fresh:
            memory = [_mapped(each._memory.get(agent, self._fresh), torch.as_tensor) for each, agent, _ in rows]
            batch = {
                Columns.OBS: _mapped(batch[Columns.OBS], lambda part: part.unsqueeze(1)),
                Columns.STATE_IN: _stacked(memory),
            }
        draws_values = self._values and self._sampling is not None
        answer = self._module.compute_q_values(batch) if draws_values else self._module.forward_inference(batch)
        if self._fresh:
            for row, (each, agent, _) in enumerate(rows):
                each._memory[agent] = _mapped(answer[Columns.STATE_OUT], itemgetter(row))
        chosen = iter(self._chosen(answer, [each for each, *_ in rows]).numpy().astype(np.float32))
        return [{agent: self._actions[agent].action(next(chosen)) for agent in turn.observations} for _, turn in turns]

    def close(self) -> None:
        pass

    def _shown(self, agent: AgentID, turn: Turn) -> Tensors:
        """Return what the module sees, as tensors of their own."""
        shown = self._view.numbers(agent, turn.observations[agent], turn.action_masks.get(agent))
        if isinstance(shown, dict):
            return {name: torch.tensor(part) for name, part in shown.items()}
        return torch.tensor(shown)

    def _chosen(self, answer: Batch, rows: Sequence[ModulePolicyController]) -> Tensor:
        """Return the actions of all rows, flat; each is drawn by its own controller."""
        if self._sampling is None:
            return self._likeliest(answer).reshape(len(rows), -1)
        inputs: Tensor = answer[QF_PREDS if self._values else Columns.ACTION_DIST_INPUTS]
        temperature = self._sampling.temperature or 1.0
        drawn = [each._drawn(inputs[row : row + 1], temperature) for row, each in enumerate(rows)]
        return torch.cat(drawn).reshape(len(rows), -1)

    def _likeliest(self, answer: Batch) -> Tensor:
        if Columns.ACTIONS in answer:
            actions: Tensor = answer[Columns.ACTIONS]
            return actions
        dist = self._module.get_inference_action_dist_cls().from_logits(answer[Columns.ACTION_DIST_INPUTS])
        likeliest: Tensor = dist.to_deterministic().sample()
        return likeliest

    def _drawn(self, inputs: Tensor, temperature: float) -> Tensor:
        """Draw from this controller's own random stream: RLlib's distributions use only the global one."""
        with torch.random.fork_rng(devices=[]):
            torch.set_rng_state(self._draws)
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


def _stacked(rows: Sequence[Tensors]) -> Tensors:
    """Return a batch of rows that have the same structure."""
    first = rows[0]
    if isinstance(first, Mapping):
        return {key: _stacked([cast(Mapping[str, Tensors], row)[key] for row in rows]) for key in first}
    return torch.stack(cast(list[Tensor], list(rows)))


def _mapped(value: Tensors, change: Callable[[Tensor], Tensor]) -> Tensors:
    """Return the same structure with every tensor changed."""
    if isinstance(value, Mapping):
        return {key: _mapped(part, change) for key, part in value.items()}
    return change(value)
