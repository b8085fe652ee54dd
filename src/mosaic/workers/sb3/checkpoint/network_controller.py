"""Controller for SB3 policies with images, memory, or deviations that depend on the observation. It needs torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.models.torch_distributions import draw, likeliest, masked
from mosaic.policies.controller import Explanation, PolicyRequest
from mosaic.policies.network import Scaler
from mosaic.workers.sb3.checkpoint.actions import head_of
from mosaic.workers.sb3.checkpoint.facts import Sb3Policy
from mosaic.workers.sb3.checkpoint.layers import PolicyLayers
from mosaic.workers.sb3.checkpoint.network import Deviations, Memory, NetworkOutputs, Sb3Network

if TYPE_CHECKING:
    from mosaic.workers.sb3.checkpoint.controllers import AgentCodes


class Sb3PolicyController:
    """Controller that plays SB3's action without exploration, or draws one. Every agent has its own memory."""

    def __init__(
        self,
        policy: Sb3Policy,
        layers: PolicyLayers,
        codes: AgentCodes,
        request: PolicyRequest,
        temperature: float | None,
    ) -> None:
        self._head, self._codes, self._temperature = head_of(policy.facts), codes, temperature
        self._network = Sb3Network(policy, layers)
        gaussian = temperature is not None and self._head.kind == "gaussian"
        self._deviations = Deviations(policy, layers) if gaussian else None
        self._scaler = None if policy.scaler is None else Scaler(*policy.scaler)
        self._random = torch.Generator()
        self._memory: dict[AgentID, Memory] = {}
        self.begin(request.agents, request.seed)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._memory.clear()
        self._random.manual_seed(seed)
        if self._deviations is not None:
            self._deviations.draw_noise(self._random, self._head.width)

    def forget(self, agent: AgentID) -> None:
        self._memory.pop(agent, None)

    @torch.no_grad()
    def act(self, turn: Turn) -> dict[AgentID, Action]:
        found, mask = self._outputs(turn), self._masks(turn)
        if found.memory is not None:
            for row, agent in enumerate(turn.observations):
                hidden, cell = found.memory
                self._memory[agent] = (hidden[:, row : row + 1], cell[:, row : row + 1])
        chosen = self._chosen(found, mask).numpy().astype(np.float32)
        return {
            agent: self._codes.actions[agent].action(row) for agent, row in zip(turn.observations, chosen, strict=True)
        }

    @torch.no_grad()
    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        if self._head.kind != "categorical" or self._head.parts != 1:
            return dict.fromkeys(turn.observations, Explanation(None, None))
        shares = masked(self._outputs(turn).outputs, self._masks(turn)).softmax(-1).double().numpy()
        return {agent: Explanation(share, None) for agent, share in zip(turn.observations, shares, strict=True)}

    def close(self) -> None:
        pass

    def _outputs(self, turn: Turn) -> NetworkOutputs:
        rows = np.zeros((len(turn.observations), self._network.row_width), np.float32)
        for row, (agent, observation) in zip(rows, turn.observations.items(), strict=True):
            self._codes.rows[agent].write(observation, row)
        if self._scaler is not None:
            self._scaler.apply(rows)
        found: NetworkOutputs = self._network(torch.from_numpy(rows), self._memories(turn))
        return found

    def _memories(self, turn: Turn) -> Memory | None:
        fresh = self._network.fresh_memory(1)
        if fresh is None:
            return None
        states = [self._memory.get(agent, fresh) for agent in turn.observations]
        return torch.cat([hidden for hidden, _ in states], 1), torch.cat([cell for _, cell in states], 1)

    def _masks(self, turn: Turn) -> Tensor | None:
        if not turn.action_masks:
            return None
        mask = torch.ones(len(turn.observations), self._head.width, dtype=torch.uint8)
        for row, agent in zip(mask, turn.observations, strict=True):
            own = turn.action_masks.get(agent)
            if own is None:
                continue
            if own.size != self._head.width:
                raise InputError(
                    f"The mask has {own.size} actions, but this network was built for {self._head.width}: play it in "
                    "the env that it was trained in."
                )
            row.copy_(torch.from_numpy(np.ravel(own).astype(np.uint8)))
        return mask

    def _chosen(self, found: NetworkOutputs, mask: Tensor | None) -> Tensor:
        if self._temperature is None:
            return likeliest(self._head, found.outputs, mask)
        if self._deviations is not None:
            return self._deviations.draw(found, self._random, self._temperature)
        return draw(self._head, found.outputs / self._temperature, None, mask, self._random).act
