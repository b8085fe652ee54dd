"""DQN's torch engine: networks that see images, and a replay buffer that keeps them as bytes.

Exploration, goals, Huber loss, Adam and the target net are those of the compiled engine (kernels.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorArrays, VectorShape
from mosaic.learners.dqn import kernels as places
from mosaic.learners.dqn.kernels import ADAM_EPSILON, DqnHyper, exploration_rate
from mosaic.learners.dqn.replay_buffer import ReplayRing, hold, make_held, make_ring, settle
from mosaic.learners.engines.torch_adam import adam_state, load_adam_state
from mosaic.learners.rollout.arrays import AgentSlots, EpisodeTally, Track, book
from mosaic.models.architecture import Architecture
from mosaic.models.packed_rows import PackedRows, RowPacking
from mosaic.models.torch_modules import Dense
from mosaic.models.torch_net import flat_weights, load_flat, make_network, tensor_names
from mosaic.models.torch_rows import PackedTensor

_LEARNERS = 1
_CPU = torch.device("cpu")


class TorchDqnEngine:
    """Q-net with its target, replay buffer and optimiser, on the CPU."""

    def __init__(
        self,
        architecture: Architecture,
        shape: VectorShape,
        hyper: DqnHyper,
        batch: int,
        size: int,
        seed: int,
        packing: RowPacking | None,
    ) -> None:
        weights_seed = child_seed(seed, "weights", 0)
        self._hyper, self._batch, self._packing = hyper, batch, packing
        self._envs, self._choices = shape.envs, architecture.head.width
        self._network, self._target = (make_network(architecture, weights_seed) for _ in range(2))
        start_uniform(self._network, torch.Generator().manual_seed(weights_seed))
        self._target.load_state_dict(self._network.state_dict())
        self._names = tensor_names(self._network, architecture)
        self._optimiser = torch.optim.Adam(self._network.parameters(), hyper.learning_rate, eps=ADAM_EPSILON)
        self.ring: ReplayRing = make_ring(shape, size, packing)
        self._held = make_held(shape, packing)
        self._no_final = None if packing is None else np.zeros((shape.rows, packing.size), np.uint8)
        self._actions = np.random.default_rng(child_seed(seed, "actions"))
        self._batches = np.random.default_rng(child_seed(seed, "batches"))
        self.act = np.zeros((shape.slots, shape.parts), np.float32)
        self.steps = np.zeros(2, np.int64)
        self.stats = np.zeros(places.STATS)

    # -- acting

    def look(self, env: VectorArrays, tally: EpisodeTally, before: int) -> None:
        """Decide for every slot; `before` is the number of env steps of earlier attempts."""
        epsilon = float(exploration_rate(self._hyper, before + int(self.steps[places.ENV_STEPS])))
        self._decide(env, epsilon)
        tally.decisions[0] += hold(self._held, self._packed(env), self._envs, self.act)

    def _decide(self, env: VectorArrays, epsilon: float) -> None:
        slots, active = len(self.act), env.active > 0
        legal = env.mask[:, : self._choices] > 0 if len(env.mask) else np.ones((slots, self._choices), bool)
        explores = self._actions.random(slots) < epsilon
        worth = self._actions.random((slots, self._choices), np.float32)  # the largest of uniform random numbers
        if (active & ~explores).any():
            greedy = active & ~explores
            with torch.no_grad():
                worth[greedy] = self._values(self._network, torch.from_numpy(env.obs[greedy])).numpy()
        self.act[:, 0] = np.where(active, np.where(legal, worth, -np.inf).argmax(axis=1), 0)

    def keep(self, env: VectorArrays, track: Track, seats: AgentSlots, tally: EpisodeTally) -> None:
        """Record the step that was made and store the decisions it completed."""
        settle(self.ring, self._held, self._packed(env), self._envs, track.reward[0])
        book(tally, seats, track, 0, env.term, env.trunc, _LEARNERS, self._hyper.gamma)
        self.steps[places.CALLS] += 1
        self.steps[places.ENV_STEPS] += self._envs

    def _packed(self, env: VectorArrays) -> VectorArrays:
        """Return the same arrays with observations packed as the buffer keeps them."""
        if self._packing is None or self._no_final is None:
            return env
        final = self._packing.pack(env.fin) if env.trunc.any() else self._no_final
        return env._replace(obs=self._packing.pack(env.obs), fin=final)  # type: ignore[arg-type]

    # -- learning

    def learn(self) -> None:
        """Run what is due after this step: the target net follows, the net learns."""
        hyper, calls = self._hyper, int(self.steps[places.CALLS])
        if calls % hyper.target_every == 0:
            self._follow(float(hyper.tau))
        ready = self.steps[places.ENV_STEPS] > hyper.learning_starts and self.ring.written[0] > 0
        if ready and calls % hyper.train_freq == 0:
            for _ in range(hyper.gradient_steps):
                filled = min(int(self.ring.written[0]), len(self.ring.act))
                self._update(self._batches.integers(filled, size=self._batch))

    @torch.no_grad()
    def _follow(self, tau: float) -> None:
        for behind, ahead in zip(self._target.parameters(), self._network.parameters(), strict=True):
            behind.lerp_(ahead, tau)

    def _update(self, idx: NDArray[np.int64]) -> None:
        """Take one Adam step on the decisions at these indices of the buffer."""
        values = self._values(self._network, self._rows(self.ring.obs, idx))
        taken = values.gather(1, torch.from_numpy(self.ring.act[idx])[:, None])[:, 0]
        loss = smooth_l1_loss(taken, self._goals(idx))
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self._network.parameters(), float(self._hyper.max_grad_norm) or math.inf)
        self._optimiser.step()
        rows = len(idx)
        self.stats += rows * float(loss.detach()), float(taken.detach().sum()), rows, float(norm), 1

    @torch.no_grad()
    def _goals(self, idx: NDArray[np.int64]) -> Tensor:
        """Return the targets of these decisions: their reward plus the target net's value of what followed."""
        ring, after = self.ring, self._rows(self.ring.next_obs, idx)
        values = self._values(self._target, after)
        judged = self._values(self._network, after) if self._hyper.double_q else values
        if len(ring.next_mask):
            judged = judged.masked_fill(torch.from_numpy(ring.next_mask[idx][:, : self._choices]) == 0, -torch.inf)
        best = values.gather(1, judged.argmax(1, keepdim=True))[:, 0]
        follows = torch.from_numpy(ring.follows[idx])
        return torch.from_numpy(ring.reward[idx]) + float(self._hyper.gamma) * follows * best

    def _rows(self, kept: NDArray[Any], idx: NDArray[np.int64]) -> Tensor:
        if self._packing is None:
            return torch.from_numpy(kept[idx])
        return PackedTensor(PackedRows(self._packing, kept[idx]), _CPU)[torch.arange(len(idx))]

    def _values(self, network: nn.Module, rows: Tensor) -> Tensor:
        outputs: Tensor = network(rows, rows[:, :0]).outputs
        return outputs

    # -- weights

    def weights(self) -> NDArray[np.float32]:
        return flat_weights(self._network, self._names)

    def load(self, weights: NDArray[np.float32], target: NDArray[np.float32]) -> None:
        load_flat(self._network, weights, self._names)
        load_flat(self._target, target, self._names)

    def training_state(self) -> dict[str, NDArray[Any]]:
        return {"target": flat_weights(self._target, self._names), **adam_state(self._optimiser, self._parameters())}

    def load_optimiser(self, state: dict[str, NDArray[Any]]) -> None:
        load_adam_state(self._optimiser, self._parameters(), state)

    def _parameters(self) -> list[nn.Parameter]:
        parameters = dict(self._network.named_parameters())
        return [parameters[name] for name in self._names]


def start_uniform(network: nn.Module, generator: torch.Generator) -> None:
    """Initialise every layer like torch, as SB3's DQN does; the unused value output is zero."""
    last: Dense | None = None
    for module in network.modules():
        if isinstance(module, Dense):
            inputs, last = module.weight.shape[0], module
        elif isinstance(module, nn.Conv2d | nn.Linear):
            inputs = module.weight[0].numel()
        else:
            continue
        bound = 1 / math.sqrt(inputs)
        for parameter in module.parameters():
            nn.init.uniform_(parameter, -bound, bound, generator=generator)
    assert last is not None
    with torch.no_grad():
        last.weight[:, -1], last.bias[-1] = 0, 0
