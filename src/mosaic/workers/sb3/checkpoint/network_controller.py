"""Controller for SB3 policies with images, memory, or deviations that depend on the observation. It needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, TypeAlias

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


_Row: TypeAlias = "tuple[Sb3PolicyController, AgentID, Turn]"  # one decision; the controller has its memory


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

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return self.act_together([(self, turn)])[0]

    def sibling(self) -> Sb3PolicyController:
        made = copy(self)
        made._memory, made._random, made._deviations = {}, torch.Generator(), copy(self._deviations)
        return made

    @torch.no_grad()
    def act_together(self, turns: Sequence[tuple[Sb3PolicyController, Turn]]) -> list[dict[AgentID, Action]]:
        rows = [(each, agent, turn) for each, turn in turns for agent in turn.observations]
        found, mask = self._outputs(rows), self._masks(rows)
        if found.memory is not None:
            hidden, cell = found.memory
            for row, (each, agent, _) in enumerate(rows):
                each._memory[agent] = (hidden[:, row : row + 1], cell[:, row : row + 1])
        chosen = iter(self._chosen(turns, found, mask).numpy().astype(np.float32))
        return [
            {agent: self._codes.actions[agent].action(next(chosen)) for agent in turn.observations} for _, turn in turns
        ]

    @torch.no_grad()
    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        if self._head.kind != "categorical" or self._head.parts != 1:
            return dict.fromkeys(turn.observations, Explanation(None, None))
        rows = [(self, agent, turn) for agent in turn.observations]
        shares = masked(self._outputs(rows).outputs, self._masks(rows)).softmax(-1).double().numpy()
        return {agent: Explanation(share, None) for agent, share in zip(turn.observations, shares, strict=True)}

    def close(self) -> None:
        pass

    def _outputs(self, acting: Sequence[_Row]) -> NetworkOutputs:
        rows = np.zeros((len(acting), self._network.row_width), np.float32)
        for row, (_, agent, turn) in zip(rows, acting, strict=True):
            self._codes.rows[agent].write(turn.observations[agent], row)
        if self._scaler is not None:
            self._scaler.apply(rows)
        found: NetworkOutputs = self._network(torch.from_numpy(rows), self._memories(acting))
        return found

    def _memories(self, acting: Sequence[_Row]) -> Memory | None:
        fresh = self._network.fresh_memory(1)
        if fresh is None:
            return None
        states = [each._memory.get(agent, fresh) for each, agent, _ in acting]
        return torch.cat([hidden for hidden, _ in states], 1), torch.cat([cell for _, cell in states], 1)

    def _masks(self, acting: Sequence[_Row]) -> Tensor | None:
        if not any(turn.action_masks for *_, turn in acting):
            return None
        mask = torch.ones(len(acting), self._head.width, dtype=torch.uint8)
        for row, (_, agent, turn) in zip(mask, acting, strict=True):
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

    def _chosen(
        self, turns: Sequence[tuple[Sb3PolicyController, Turn]], found: NetworkOutputs, mask: Tensor | None
    ) -> Tensor:
        """Return the actions of all rows; each controller draws those of its own turn."""
        if self._temperature is None:
            return likeliest(self._head, found.outputs, mask)
        drawn, row = [], 0
        for each, turn in turns:
            rows = slice(row, row + len(turn.observations))
            own = NetworkOutputs(found.outputs[rows], found.latent[rows], None)
            drawn.append(each._drawn(own, self._temperature, None if mask is None else mask[rows]))
            row = rows.stop
        return torch.cat(drawn)

    def _drawn(self, found: NetworkOutputs, temperature: float, mask: Tensor | None) -> Tensor:
        if self._deviations is not None:
            return self._deviations.draw(found, self._random, temperature)
        return draw(self._head, found.outputs / temperature, None, mask, self._random).act
