"""mpe2's simple_spread as functions of tensors: agents cover landmarks and avoid collisions."""

from __future__ import annotations

import torch
from torch import Tensor

from mosaic.envs.compiled.mpe.physics import (
    AGENTS,
    CONTACT_FORCE,
    CONTACT_MARGIN,
    DAMPING,
    DT,
    ENTITIES,
    LOCAL_RATIO,
    MAX_CYCLES,
    NEAR_AGENTS,
    NEAR_LANDMARKS,
)
from mosaic.envs.compiled.vector import CompiledKernel
from mosaic.envs.tensors.rules import Moved, Situation, TensorRules, TensorView


def make_simple_spread(kernel: CompiledKernel, device: torch.device) -> TensorRules | None:
    """Return the rules, or None if agents see their nearest neighbours only."""
    if kernel.facts[NEAR_AGENTS] or kernel.facts[NEAR_LANDMARKS]:
        return None
    return SimpleSpread(kernel, device)


class SimpleSpread:
    """N agents and N landmarks; a row of state is as `envs/compiled/mpe/physics.py` describes it."""

    def __init__(self, kernel: CompiledKernel, device: torch.device) -> None:
        facts = kernel.facts.tolist()
        self.agents = agents = int(facts[AGENTS])
        self.time_limit, self.local_ratio = int(facts[MAX_CYCLES]), facts[LOCAL_RATIO]
        self.touching, self.accel = 2 * facts[ENTITIES], facts[ENTITIES + 2 * agents]
        self.draws = 4 * agents
        self._width = kernel.widths[0]
        self._push = torch.tensor([[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]], device=device)
        self._others = torch.tensor([[b for b in range(agents) if b != a] for a in range(agents)], device=device)
        self._self = torch.eye(agents, dtype=torch.bool, device=device)

    def begin(self, drawn: Tensor) -> Situation:
        places = 2 * drawn - 1
        rest = torch.zeros_like(places[:, : 2 * self.agents])
        ints = torch.zeros(len(drawn), 1, dtype=torch.int64, device=drawn.device)
        return Situation(torch.cat((places, rest, places.abs().amax(1, keepdim=True)), 1), ints)

    def show(self, here: Situation) -> TensorView:
        agents, landmarks, speeds = self._parts(here.state)
        to_landmarks = (landmarks[:, None] - agents[:, :, None]).flatten(2)
        rows = len(agents)
        apart = agents[:, None] - agents[:, :, None]  # [E, from, to, 2]
        index = self._others[None, :, :, None].expand(rows, -1, -1, 2)
        to_others = apart.gather(2, index).flatten(2)
        silence = agents.new_zeros(rows, self.agents, self._width - 4 - to_landmarks.shape[2] - to_others.shape[2])
        return TensorView(torch.cat((speeds, agents, to_landmarks, to_others, silence), 2), None, None)

    def move(self, here: Situation, act: Tensor) -> Moved:
        agents, landmarks, speeds = self._parts(here.state)
        force = self._push.to(agents.dtype)[act[:, :, 0].long() % len(self._push)] * self.accel + self._contact(agents)
        agents = agents + speeds * DT  # with the velocity from before the push
        speeds = speeds * (1 - DAMPING) + force * DT
        age = here.ints + 1
        state = torch.cat((agents.flatten(1), landmarks.flatten(1), speeds.flatten(1), here.state[:, -1:]), 1)
        late = (age >= self.time_limit)[:, 0]
        return Moved(Situation(state, age), self._pay(agents, landmarks), torch.zeros_like(late), late)

    def _parts(self, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return positions of agents and landmarks and velocities of agents, each [E, N, 2]."""
        count = 2 * self.agents
        agents, landmarks, speeds = torch.split(state[:, :-1], [count, count, count], 1)
        envs = len(state)
        return agents.reshape(envs, -1, 2), landmarks.reshape(envs, -1, 2), speeds.reshape(envs, -1, 2)

    def _contact(self, agents: Tensor) -> Tensor:
        """Return the forces of collisions on each agent, [E, N, 2]."""
        apart = agents[:, :, None] - agents[:, None]
        distance = (apart.square().sum(3) + self._self.to(agents.dtype)).sqrt()  # of an agent to itself: any but 0
        depth = -(distance - self.touching) / CONTACT_MARGIN
        softened: Tensor = torch.nn.functional.softplus(depth, threshold=50.0) * CONTACT_MARGIN
        size = torch.where(self._self, 0.0, CONTACT_FORCE * softened / distance)
        return (apart * size[..., None]).sum(2)

    def _pay(self, agents: Tensor, landmarks: Tensor) -> Tensor:
        """Return rewards: shared, minus every landmark's distance to the nearest agent; own, −1 per agent touched."""
        far = (landmarks[:, :, None] - agents[:, None]).square().sum(3).amin(2).sqrt().sum(1)
        near = (agents[:, :, None] - agents[:, None]).square().sum(3).sqrt() < self.touching
        touched = (near & ~self._self).sum(2).to(agents.dtype)
        paid: Tensor = -far[:, None] * (1 - self.local_ratio) - touched * self.local_ratio
        return paid
