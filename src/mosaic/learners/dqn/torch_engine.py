"""DQN's torch engine: networks that see images, and a replay buffer that keeps them as bytes.

Exploration, goals, Huber loss, Adam and the target net are those of the compiled engine (kernels.py).
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from mosaic.core.seeding import child_seed
from mosaic.envs.vector.layout import VectorArrays, VectorShape
from mosaic.learners.dqn import kernels as places
from mosaic.learners.dqn.kernels import ADAM_EPSILON, DqnHyper, exploration_rate
from mosaic.learners.dqn.replay_buffer import ReplayBuffer, ReplayRing
from mosaic.learners.engines.torch_ppo_update import adam_state, load_adam_state
from mosaic.learners.recorded import RecordedSteps
from mosaic.learners.rollout.arrays import Assignment, EpisodeTally, Track, record_step
from mosaic.learners.rollout.off_policy import CALLS, ENV_STEPS
from mosaic.models.architecture import Architecture
from mosaic.models.engine import StateArrays
from mosaic.models.packed_rows import PackedRows, RowPacking, Rows
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
        recorded: RecordedSteps | None = None,
    ) -> None:
        weights_seed = child_seed(seed, "weights", 0)
        self._hyper, self._batch, self._choices = hyper, batch, architecture.head.width
        self._network, self._target = (make_network(architecture, weights_seed) for _ in range(2))
        start_uniform(self._network, torch.Generator().manual_seed(weights_seed))
        self._target.load_state_dict(self._network.state_dict())
        self._names = tensor_names(self._network, architecture)
        self._optimiser = torch.optim.Adam(self._network.parameters(), hyper.learning_rate, eps=ADAM_EPSILON)
        self._buffer = ReplayBuffer(shape, size, packing, recorded)
        self._actions = np.random.default_rng(child_seed(seed, "actions"))
        self._batches = np.random.default_rng(child_seed(seed, "batches"))
        self.act = np.zeros((shape.slots, shape.parts), np.float32)
        self.steps = np.zeros(2, np.int64)
        self.stats = np.zeros(places.STATS)

    @property
    def ring(self) -> ReplayRing:
        return self._buffer.ring

    # -- acting

    def look(self, env: VectorArrays, tally: EpisodeTally, before: int) -> None:
        """Decide for every slot; `before` is the number of env steps of earlier attempts."""
        epsilon = float(exploration_rate(self._hyper, before + int(self.steps[ENV_STEPS])))
        self.decide(env, epsilon, self.act)
        tally.decisions[0] += self._buffer.hold(env, self.act)

    def decide(self, env: VectorArrays, epsilon: float, act: NDArray[np.float32]) -> None:
        slots, active = len(act), env.active > 0
        legal = env.mask[:, : self._choices] > 0 if len(env.mask) else np.ones((slots, self._choices), bool)
        explores = self._actions.random(slots) < epsilon
        worth = self._actions.random((slots, self._choices), np.float32)  # the largest of uniform random numbers
        if (active & ~explores).any():
            greedy = active & ~explores
            with torch.no_grad():
                worth[greedy] = self._values(self._network, torch.from_numpy(env.obs[greedy])).numpy()
        act[:, 0] = np.where(active, np.where(legal, worth, -np.inf).argmax(axis=1), 0)

    def keep(self, env: VectorArrays, track: Track, assignment: Assignment, tally: EpisodeTally) -> None:
        """Record the step that was made and store the decisions it completed."""
        self._buffer.settle(env, track.reward[0])
        record_step(tally, assignment, track, 0, env.term, env.trunc, _LEARNERS, self._hyper.gamma)
        self.steps[CALLS] += 1
        self.steps[ENV_STEPS] += len(assignment.policy_of)

    # -- learning

    def learn(self) -> None:
        """Run what is due after this step: the target net follows, the net learns."""
        hyper, calls = self._hyper, int(self.steps[CALLS])
        if calls % hyper.target_every == 0:
            self._follow(float(hyper.tau))
        ready = self.steps[ENV_STEPS] > hyper.learning_starts and self._buffer.filled > 0
        if ready and calls % hyper.train_freq == 0:
            for _ in range(hyper.gradient_steps):
                self._update(self._draw())

    def train_recorded(self, done: int, count: int, seed: int) -> None:
        self._batches = np.random.default_rng(seed)
        for number in range(done + 1, done + count + 1):
            self._update(self._draw())
            if number % self._hyper.target_every == 0:
                self._follow(float(self._hyper.tau))

    def _draw(self) -> NDArray[np.int64]:
        return self._buffer.draw(self._batches, self._batch, float(self._hyper.demo_share))

    @torch.no_grad()
    def _follow(self, tau: float) -> None:
        for behind, ahead in zip(self._target.parameters(), self._network.parameters(), strict=True):
            behind.lerp_(ahead, tau)

    def _update(self, idx: NDArray[np.int64]) -> None:
        """Take one Adam step on the decisions at these indices of the buffer."""
        values = self._values(self._network, _tensor(self._buffer.observations(idx)))
        taken = values.gather(1, torch.from_numpy(self.ring.act[idx])[:, None])[:, 0]
        huber = smooth_l1_loss(taken, self._goals(idx))
        conservative, margin = self._recorded_losses(values, taken, idx)
        rows, hyper = len(idx), self._hyper
        loss = huber + (float(hyper.alpha) * conservative + float(hyper.demo_coef) * margin) / rows
        self._optimiser.zero_grad()
        torch.autograd.backward(loss)
        norm = nn.utils.clip_grad_norm_(self._network.parameters(), float(self._hyper.max_grad_norm) or math.inf)
        self._optimiser.step()
        sums = [float(part.detach()) for part in (rows * huber, taken.sum(), conservative, margin)]
        self.stats += sums[0], sums[1], rows, float(norm), 1, sums[2], sums[3]

    def _recorded_losses(self, values: Tensor, taken: Tensor, idx: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return the sums of the conservative and of the margin loss over recorded decisions."""
        ring, hyper = self.ring, self._hyper
        nothing = values.new_zeros(())
        recorded = idx < len(ring.expert)
        if not recorded.any():
            return nothing, nothing
        chosen, places = torch.from_numpy(recorded), idx[recorded]
        values, taken = values[chosen], taken[chosen]
        if len(ring.mask):
            values = values.masked_fill(torch.from_numpy(ring.mask[places][:, : self._choices]) == 0, -1e9)
        conservative = (values.logsumexp(1) - taken).sum() if hyper.alpha else nothing
        act = torch.from_numpy(ring.act[places])[:, None]
        apart = torch.full_like(values, float(hyper.demo_margin)).scatter(1, act, 0.0)
        margin = torch.from_numpy(ring.expert[places]) * ((values + apart).max(1).values - taken)
        return conservative, margin.sum() if hyper.demo_coef else nothing

    @torch.no_grad()
    def _goals(self, idx: NDArray[np.int64]) -> Tensor:
        """Return the targets of these decisions: their reward plus the target net's value of what followed."""
        ring, after = self.ring, _tensor(self._buffer.next_observations(idx))
        values = self._values(self._target, after)
        judged = self._values(self._network, after) if self._hyper.double_q else values
        if len(ring.next_mask):
            judged = judged.masked_fill(torch.from_numpy(ring.next_mask[idx][:, : self._choices]) == 0, -torch.inf)
        best = values.gather(1, judged.argmax(1, keepdim=True))[:, 0]
        follows = torch.from_numpy(ring.follows[idx])
        return torch.from_numpy(ring.reward[idx]) + float(self._hyper.gamma) * follows * best

    def _values(self, network: nn.Module, rows: Tensor) -> Tensor:
        outputs: Tensor = network(rows, rows[:, :0]).outputs
        return outputs

    # -- weights

    def set_learning_rate(self, rate: float) -> None:
        for group in self._optimiser.param_groups:
            group["lr"] = rate

    def weights(self) -> NDArray[np.float32]:
        return flat_weights(self._network, self._names)

    def load(self, weights: NDArray[np.float32], target: NDArray[np.float32]) -> None:
        load_flat(self._network, weights, self._names)
        load_flat(self._target, target, self._names)

    def training_state(self) -> StateArrays:
        return {"target": flat_weights(self._target, self._names), **adam_state(self._optimiser, self._parameters())}

    def load_optimiser(self, state: StateArrays) -> None:
        load_adam_state(self._optimiser, self._parameters(), state)

    def _parameters(self) -> list[nn.Parameter]:
        parameters = dict(self._network.named_parameters())
        return [parameters[name] for name in self._names]


def _tensor(rows: Rows) -> Tensor:
    if isinstance(rows, PackedRows):
        return PackedTensor(rows, _CPU)[torch.arange(len(rows))]
    return torch.from_numpy(rows)


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
