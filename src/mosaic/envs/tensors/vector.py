"""Vector env whose envs are tensors on a device."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from mosaic.config.sections import EnvironmentConfig
from mosaic.envs.compiled.vector import CompiledKernel, ReferenceRenderer
from mosaic.envs.env import Env
from mosaic.envs.tensors.rules import Situation, TensorRules, TensorView, choose, find_rules
from mosaic.envs.vector.layout import VectorShape, vector_arrays


class TensorStep(NamedTuple):
    """One step of all envs; those whose episode is over have begun another."""

    reward: Tensor  # [E, agents]
    terminated: Tensor  # [E] bool
    truncated: Tensor  # [E] bool
    final: TensorView  # what agents would see, had no episode begun again


class TensorVector:
    """Rules with the variables of E envs and a random stream, on one device.

    Learners on the device call `advance`; `reset`, `step` and the arrays of the `VectorEnv` protocol copy everything to
    the host, for comparisons with other vector envs.
    """

    def __init__(
        self,
        kernel: CompiledKernel,
        rules: TensorRules,
        envs: int,
        device: torch.device,
        reference: Callable[[], Env] | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.rules, self.device = rules, device
        self.shape: VectorShape = kernel.shape(envs)
        self.here = Situation(
            torch.zeros(envs, kernel.state_width, dtype=dtype, device=device),
            torch.zeros(envs, kernel.ints_width, dtype=torch.int64, device=device),
        )
        self.generator = torch.Generator(device)
        self.arrays = vector_arrays(self.shape)
        self.obs, self.mask, self.who, self.active, self.rew, self.term, self.trunc, self.fin = self.arrays
        self._renderer = ReferenceRenderer(reference, kernel.load) if reference and kernel.load else None

    # -- on the device

    def begin(self) -> None:
        """Put every env at the start of an episode."""
        self._become(self._fresh())

    def show(self) -> TensorView:
        return self.rules.show(self.here)

    def advance(self, act: Tensor) -> TensorStep:
        """TensorStep every env; where an episode is over, the next one begins at once."""
        moved = self.rules.move(self.here, act)
        final = self.rules.show(moved.here)
        self._become(choose(moved.terminated | moved.truncated, self._fresh(), moved.here))
        return TensorStep(moved.reward, moved.terminated, moved.truncated, final)

    def _fresh(self) -> Situation:
        like = self.here.state
        drawn = torch.empty(self.shape.envs, self.rules.draws, dtype=like.dtype, device=self.device)
        return self.rules.begin(drawn.uniform_(generator=self.generator))

    def _become(self, situation: Situation) -> None:
        """Write in place: a CUDA graph reads the same memory again."""
        self.here.state.copy_(situation.state)
        self.here.ints.copy_(situation.ints)

    # -- on the host

    def reset(self, seed: int) -> None:
        self.generator.manual_seed(seed)
        self.begin()
        for paid_or_ended in (self.rew, self.term, self.trunc, self.fin):
            paid_or_ended[:] = 0
        self._copy(self.show())

    def step(self, act: NDArray[np.float32]) -> None:
        envs, slots = self.shape.envs, self.shape.slots_per_env
        taken = self.advance(torch.from_numpy(act).to(self.device).view(envs, slots, -1))
        agents = len(self.shape.agents)
        self.rew[:] = taken.reward.cpu().numpy().ravel()
        self.term[:] = np.repeat(taken.terminated.cpu().numpy(), agents)
        self.trunc[:] = np.repeat(taken.truncated.cpu().numpy(), agents)
        if not self.shape.turn_based:  # these games are never cut off
            self.fin[:] = taken.final.obs.flatten(0, 1).cpu().numpy()
        self._copy(self.show())

    def _copy(self, view: TensorView) -> None:
        self.obs[:] = view.obs.flatten(0, 1).cpu().numpy()
        if view.mask is not None:
            self.mask[:] = view.mask.flatten(0, 1).cpu().numpy()
        if view.who is not None:
            self.who[:] = view.who.cpu().numpy()

    def load(self, state: NDArray[np.float64], ints: NDArray[np.int64]) -> None:
        """Continue from the variables of a compiled kernel's envs."""
        self.here.state.copy_(torch.from_numpy(state))
        self.here.ints.copy_(torch.from_numpy(ints))

    def render(self, index: int) -> NDArray[np.uint8] | None:
        return self.freeze(index)()

    def freeze(self, index: int) -> Callable[[], NDArray[np.uint8] | None]:
        """Return a function that renders one env as it is now, also in another thread while this one keeps stepping."""
        renderer = self._renderer
        state = self.here.state[index].double().cpu().numpy().copy()
        ints = self.here.ints[index].cpu().numpy().copy()
        return lambda: None if renderer is None else renderer.draw(state, ints)

    def close(self) -> None:
        if self._renderer is not None:
            self._renderer.close()


def make_tensor_vector(config: EnvironmentConfig, envs: int, device: torch.device) -> TensorVector | None:
    """Return the vector env, or None if there are no rules for this configuration."""
    from mosaic.envs.catalog import make_env
    from mosaic.envs.compiled.registry import find_kernel

    kernel = find_kernel(config)
    rules = None if kernel is None else find_rules(config, device, kernel)
    if kernel is None or rules is None:
        return None
    return TensorVector(kernel, rules, envs, device, lambda: make_env(config))
