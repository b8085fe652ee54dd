"""Benchmark of PPO on CartPole entirely on a GPU: envs, network and updates as tensors, in one CUDA graph.

python benchmarks/gpu.py [--envs 65536] [--compile] [--repeats 5]           on a CUDA device
python benchmarks/gpu.py --device cpu --envs 256 --steps 32 --blocks 4      the same program, small, without one

Network, distribution and loss are the torch engine's. Every step is learned from once. The gate: the sampled policy
lasts 475 of 500 steps on average in fresh envs (4,096, or as many as are trained in); without it no speed is printed.
A row truncated by the time limit bootstraps from the value of the state before it, 0.02 s earlier, instead of the next
one. Rewards are scaled, so that values are small and the critic does not dominate the clipped gradient.

One NVIDIA H200, torch 2.11.0+cu130, medians of 5 repeats of 20 iterations, the gate passed each time:

    --envs 16384                 47.8 M steps/s, gate after 0.33 s
    --envs 65536                125.0 M steps/s, gate after 0.51 s
    --envs 262144               210.4 M steps/s, gate after 1.30 s
    --envs 262144 --compile     298.1 M steps/s, gate after 0.84 s

A run (`mosaic train`, engine=torch, device=cuda) steps compiled envs on the CPU and copies rows to the device: on the
same machine 4.3 M steps/s with 16,384 envs and 6.6 M with 65,536, one epoch of four minibatches.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import pi
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import torch
from torch import Tensor

from mosaic.envs.vector.encoding import ActionHead
from mosaic.learners.engines.torch import ADAM_EPSILON, checked_device
from mosaic.learners.engines.torch_ppo_update import Minibatch, ppo_loss
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LearnSettings
from mosaic.models.torch_distributions import draw
from mosaic.models.torch_net import TorchNet

LIMIT = 500  # steps per episode
GATE = 475.0
TRIED_ENVS = 4096
REWARD = 0.05
GAMMA, LAMBDA = 0.99, 0.95
SETTINGS = LearnSettings(n_epochs=1, clip_range=0.2, ent_coef=0.0, vf_coef=0.5, max_grad_norm=0.5)


@dataclass(frozen=True, slots=True)
class Plan:
    envs: int
    steps: int  # per rollout
    blocks: int  # minibatches per rollout, each with all steps of its own envs
    hidden: tuple[int, ...]
    shared: bool
    learning_rate: float
    seed: int
    compiled: bool

    @property
    def rows(self) -> int:
        return self.envs * self.steps


class Moved(NamedTuple):
    state: Tensor
    age: Tensor
    fell: Tensor
    cut: Tensor


class Taken(NamedTuple):
    """One action in every env, and its outcome."""

    act: Tensor
    logp: Tensor
    value: Tensor
    moved: Moved


def physics(state: Tensor, act: Tensor) -> Tensor:
    """Advance Gymnasium's CartPole-v1: [N, 4] and actions [N] of 0 and 1 → [N, 4]."""
    x, speed, angle, turn = state.unbind(1)
    force = 20.0 * act - 10.0
    sin, cos = angle.sin(), angle.cos()
    push = (force + 0.05 * turn * turn * sin) / 1.1
    turn_change = (9.8 * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos * cos / 1.1))
    speed_change = push - 0.05 * turn_change * cos / 1.1
    return torch.stack(
        (x + 0.02 * speed, speed + 0.02 * speed_change, angle + 0.02 * turn, turn + 0.02 * turn_change), 1
    )


def beginning(like: Tensor) -> Tensor:
    return torch.rand_like(like) * 0.1 - 0.05


def move(state: Tensor, age: Tensor, act: Tensor) -> Moved:
    """Step every env once; where an episode ends, the next one begins at once."""
    after, age = physics(state, act), age + 1.0
    fell = (after[:, 0].abs() > 2.4) | (after[:, 2].abs() > 12 * 2 * pi / 360)
    cut = (age >= LIMIT) & ~fell
    over = fell | cut
    return Moved(torch.where(over[:, None], beginning(after), after), torch.where(over, 0.0, age), fell, cut)


class Learning:
    """All tensors of a run at fixed addresses, so that one graph can replay an iteration.

    Rows are laid out as [block, step, env of the block]: a block is a minibatch without copying. Envs are alike and
    independent, so their assignment to minibatches needs no shuffling.
    """

    def __init__(self, plan: Plan, device: torch.device) -> None:
        torch.manual_seed(plan.seed)
        self.plan = plan
        head = ActionHead("categorical", (2,))
        self.architecture = Architecture(4, head, hidden=plan.hidden, shared=plan.shared)
        self.network = TorchNet(self.architecture, plan.seed).to(device)
        self.optimiser = torch.optim.Adam(
            self.network.parameters(),
            lr=torch.tensor(plan.learning_rate, device=device),
            eps=ADAM_EPSILON,
            capturable=device.type == "cuda",
            fused=True,
        )
        self.rate: Tensor = self.optimiser.param_groups[0]["lr"]  # written in place: a graph reads it at this address
        self.state, self.age = torch.zeros(plan.envs, 4, device=device), torch.zeros(plan.envs, device=device)
        self.nothing = torch.zeros(plan.envs, 0, device=device)
        rows = (plan.blocks, plan.steps, plan.envs // plan.blocks)
        self.obs = torch.zeros(*rows, 4, device=device)
        self.act = torch.zeros(*rows, 1, device=device)
        self.logp, self.val, self.adv, self.ret, self.fell, self.cut = (
            torch.zeros(rows, device=device) for _ in range(6)
        )
        self._take: Callable[..., Taken] = torch.compile(self._take_plainly) if plan.compiled else self._take_plainly
        self._loss: Callable[..., Tensor] = torch.compile(self._loss_plainly) if plan.compiled else self._loss_plainly
        self.begin()

    def begin(self) -> None:
        """Reset the envs with random episode ages, so that they do not reach the time limit together."""
        self.state.copy_(beginning(self.state))
        self.age.copy_((torch.rand_like(self.age) * LIMIT).floor())

    def iterate(self) -> None:
        """Do a rollout, compute advantages, and make one pass over the minibatches, without waiting for the device."""
        with torch.no_grad():
            for step in range(self.plan.steps):
                self._store(step)
            last = self.network(self.state, self.nothing).value
            self._advantages(last.view(self.plan.blocks, -1))
        for block in range(self.plan.blocks):
            self._improve(block)

    def _store(self, step: int) -> None:
        blocks = self.plan.blocks
        taken = self._take(self.state, self.age)
        self.obs[:, step].copy_(self.state.view(blocks, -1, 4))
        self.act[:, step].copy_(taken.act.view(blocks, -1, 1))
        for place, found in (
            (self.logp, taken.logp),
            (self.val, taken.value),
            (self.fell, taken.moved.fell),
            (self.cut, taken.moved.cut),
        ):
            place[:, step].copy_(found.view(blocks, -1))
        self.state.copy_(taken.moved.state)
        self.age.copy_(taken.moved.age)

    def _take_plainly(self, state: Tensor, age: Tensor) -> Taken:
        answer = self.network(state, self.nothing)
        act, logp = draw(self.architecture.head, answer.outputs, None, None)
        return Taken(act, logp, answer.value, move(state, age, act[:, 0]))

    def _advantages(self, following: Tensor) -> None:
        carried = torch.zeros_like(following)
        for step in reversed(range(self.plan.steps)):
            value, fell, cut = self.val[:, step], self.fell[:, step], self.cut[:, step]
            ahead = torch.where(cut > 0, value, following) * (1.0 - fell)
            carried = REWARD + GAMMA * ahead - value + GAMMA * LAMBDA * (1.0 - fell) * (1.0 - cut) * carried
            self.adv[:, step].copy_(carried)
            following = value
        torch.add(self.adv, self.val, out=self.ret)

    def _improve(self, block: int) -> None:
        fields = (self.act, self.logp, self.val, self.adv, self.ret)
        act, logp, val, adv, ret = (field[block].flatten(0, 1) for field in fields)
        loss = self._loss(self.obs[block].flatten(0, 1), act, logp, val, adv, ret)
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.network.parameters(), SETTINGS.max_grad_norm)
        self.optimiser.step()

    def _loss_plainly(self, obs: Tensor, act: Tensor, logp: Tensor, val: Tensor, adv: Tensor, ret: Tensor) -> Tensor:
        nothing = obs[:, :0]
        rows = Minibatch(obs, nothing, None, act, logp, val, adv, ret)
        return ppo_loss(self.architecture.head, self.network(obs, nothing), None, rows, SETTINGS).total


def captured(learning: Learning) -> Callable[[], None]:
    """Return the iteration as one CUDA graph, or unchanged on a CPU; what the warm-up learned is reset."""
    if not learning.state.is_cuda:
        return learning.iterate
    weights = {name: tensor.clone() for name, tensor in learning.network.state_dict().items()}
    beside: Any = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(3):
            learning.iterate()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    learning.optimiser.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        learning.iterate()
    learning.network.load_state_dict(weights)
    for moments in learning.optimiser.state.values():
        for tensor in moments.values():
            tensor.zero_()
    learning.begin()
    return graph.replay


@torch.no_grad()
def mean_return(learning: Learning) -> float:
    """Return how long the sampled policy lasts in fresh envs on average."""
    state = beginning(learning.state[:TRIED_ENVS])
    alive = torch.ones(len(state), device=state.device)
    total = torch.zeros_like(alive)
    nothing = state[:, :0]
    for _ in range(LIMIT):
        act, _ = draw(learning.architecture.head, learning.network(state, nothing).outputs, None, None)
        total += alive
        state = physics(state, act[:, 0])
        alive *= ((state[:, 0].abs() <= 2.4) & (state[:, 2].abs() <= 12 * 2 * pi / 360)).to(alive.dtype)
    return float(total.mean())


def seconds(work: Callable[[], None], times: int, device: torch.device) -> float:
    _wait(device)
    start = perf_counter()
    for _ in range(times):
        work()
    _wait(device)
    return perf_counter() - start


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def check_physics() -> None:
    """Compare the batched env with Gymnasium's, from equal states; a speed on another problem would be meaningless."""
    import gymnasium

    env: Any = gymnasium.make("CartPole-v1").unwrapped
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        state = (torch.rand(1, 4, generator=generator) - 0.5) * torch.tensor([4.8, 4.0, 0.42, 4.0])
        act = int(torch.randint(0, 2, (1,), generator=generator))
        env.reset(seed=0)
        env.state = state[0].double().numpy()
        seen, _, fell, _, _ = env.step(act)
        ours = physics(state, torch.tensor([float(act)]))
        torch.testing.assert_close(ours[0], torch.from_numpy(seen), rtol=1e-5, atol=1e-5)
        moved = move(state, torch.zeros(1), torch.tensor([float(act)]))
        if bool(moved.fell) != fell:
            raise SystemExit(f"The gate failed: from {state} with action {act} Gymnasium says fell={fell}.")


def measure(plan: Plan, device: torch.device, most: int, repeats: int, timed: int) -> dict[str, Any]:
    """Train until the gate is passed, then time iterations of further training."""
    learning = Learning(plan, device)
    start = perf_counter()
    iterate = captured(learning)
    _wait(device)
    preparation = perf_counter() - start
    learned_s, iterations, found, between = 0.0, 0, mean_return(learning), 5
    print(f"untrained: mean return {found:.0f}", flush=True)
    while found < GATE and iterations < most:
        learning.rate.fill_(plan.learning_rate * max(1.0 - iterations / most, 0.1))
        learned_s += seconds(iterate, between, device)
        iterations += between
        found = mean_return(learning)
        print(
            f"{iterations:5} iterations {iterations * plan.rows:14,} steps {learned_s:8.2f} s  {found:6.1f}", flush=True
        )
    if found < GATE:
        raise SystemExit(
            f"The gate failed, so the speed means nothing: mean return {found:.0f} after {most} iterations."
        )
    speeds = [timed * plan.rows / seconds(iterate, timed, device) for _ in range(repeats)]
    return {
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        **asdict(plan),
        "preparation_s": round(preparation, 2),
        "env_steps_to_gate": iterations * plan.rows,
        "seconds_to_gate": round(learned_s, 3),
        "mean_return_at_gate": round(found, 1),
        "mean_return_after_timing": round(mean_return(learning), 1),
        "env_steps_per_s": round(median(speeds)),
        "env_steps_per_s_all": [round(speed) for speed in speeds],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--envs", type=int, default=65536)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--blocks", type=int, default=8)
    parser.add_argument("--hidden", type=int, nargs="+", default=[64, 64])
    parser.add_argument("--separate", action="store_true", help="a value network of its own")
    parser.add_argument("--learning-rate", type=float, default=2.5e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compile", action="store_true", help="torch.compile for what the graph holds")
    parser.add_argument("--most", type=int, default=400, help="iterations after which the gate has failed")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--timed", type=int, default=20, help="iterations of one repeat")
    asked = parser.parse_args()
    if asked.envs % asked.blocks:
        parser.error(f"{asked.envs} envs cannot be parted into {asked.blocks} equal blocks.")
    torch.set_float32_matmul_precision("high")
    device = checked_device(asked.device)
    check_physics()
    plan = Plan(
        asked.envs,
        asked.steps,
        asked.blocks,
        tuple(asked.hidden),
        not asked.separate,
        asked.learning_rate,
        asked.seed,
        asked.compile,
    )
    result = measure(plan, device, asked.most, asked.repeats, asked.timed)
    print(f"{result['env_steps_per_s'] / 1e6:,.1f} M steps/s with learning, goal 100 M on one H200")
    print(json.dumps(result))


if __name__ == "__main__":
    main()
