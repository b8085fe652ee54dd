"""Policies of a rollout worker on a device: networks and optimisers whose tensors keep their addresses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import replace
from math import inf
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.learners.engines.torch import ADAM_EPSILON
from mosaic.learners.engines.torch_ppo_update import Loss, Minibatch, adam_state, load_adam_state, ppo_loss
from mosaic.learners.normalization import ObservationMoments
from mosaic.learners.rollout.base import Rates
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES, LearnSettings, StateArrays
from mosaic.models.torch_distributions import Drawn, draw
from mosaic.models.torch_net import NetworkOutput, flat_weights, load_flat, scale_of, tensor_names

REPORTED = ("loss", *LOSSES, "gradient_norm")


class TensorPolicy:
    """One policy's network; a learner's has an optimiser too."""

    def __init__(self, architecture: Architecture, device: torch.device, network: nn.Module, *, compiled: bool) -> None:
        self.architecture, self.device = architecture, device
        self.network = network.to(device)
        self._names = tensor_names(network, architecture)
        self._ask: Callable[..., Any] = torch.compile(network) if compiled else network
        self._nothing = torch.zeros(1, 0, device=device)

    def ask(self, obs: Tensor) -> NetworkOutput:
        return NetworkOutput(*self._ask(obs, self._nothing.expand(len(obs), 0)))

    def act(self, obs: Tensor, mask: Tensor | None, generator: torch.Generator) -> tuple[Drawn, Tensor]:
        """Return actions with their log-probabilities, and values."""
        answer = self.ask(obs)
        drawn = draw(self.architecture.head, answer.outputs, scale_of(self.network), mask, generator)
        return drawn, answer.value

    def weights(self) -> NDArray[np.float32]:
        return flat_weights(self.network, self._names)

    def load(self, flat: NDArray[np.float32]) -> None:
        load_flat(self.network, flat, self._names)

    def parameters(self) -> Iterator[nn.Parameter]:
        """Yield the parameters in the order of the flat weights."""
        parameters = dict(self.network.named_parameters())
        return (parameters[name] for name in self._names if name in parameters)


class TensorLearner:
    """Optimiser of a policy; its rates are tensors, which a CUDA graph reads at every replay."""

    def __init__(self, policy: TensorPolicy, settings: LearnSettings) -> None:
        self.policy = policy
        device = policy.device
        self._rate, self._clip_range, self._ent_coef = (torch.zeros((), device=device) for _ in range(3))
        self.optimiser = torch.optim.Adam(
            policy.network.parameters(),
            lr=self._rate,
            eps=ADAM_EPSILON,
            capturable=device.type == "cuda",
            fused=True,
        )
        self.load_state(adam_state(self.optimiser, policy.parameters()))  # zeros, so that nothing is allocated later
        self._settings = replace(
            settings, clip_range=cast(float, self._clip_range), ent_coef=cast(float, self._ent_coef)
        )

    def set_rates(self, rates: Rates) -> None:
        self._rate.fill_(rates.learning_rate)
        self._clip_range.fill_(rates.clip_range)
        self._ent_coef.fill_(rates.ent_coef)

    def improve(self, rows: Minibatch, weight: Tensor | None) -> Tensor:
        """Take one Adam step; return its statistics in the order of `REPORTED`."""
        loss = self._loss(rows, weight)
        self.optimiser.zero_grad(set_to_none=True)
        torch.autograd.backward(loss.total)
        norm = nn.utils.clip_grad_norm_(self.policy.network.parameters(), self._settings.max_grad_norm or inf)
        self.optimiser.step()
        return torch.stack([part.detach() for part in (*loss[: 1 + len(LOSSES)], norm)])

    def _loss(self, rows: Minibatch, weight: Tensor | None) -> Loss:
        policy = self.policy
        answer = policy.ask(rows.obs)
        head, log_std = policy.architecture.head, scale_of(policy.network)
        return ppo_loss(head, answer, log_std, rows, self._settings, weight=weight)

    def state(self) -> StateArrays:
        return adam_state(self.optimiser, self.policy.parameters())

    def load_state(self, state: StateArrays) -> None:
        load_adam_state(self.optimiser, self.policy.parameters(), state)

    def tensors(self) -> list[Tensor]:
        """Return everything that learning changes."""
        moments = [tensor for each in self.optimiser.state.values() for tensor in each.values()]
        return [*self.policy.network.parameters(), *moments]


class TensorPolicies:
    """Policies of all learners, then of the frozen places; the latter are loaded together, between two rollouts."""

    def __init__(
        self,
        architectures: Sequence[Architecture],
        networks: Sequence[nn.Module],
        settings: Sequence[LearnSettings],
        places: int,
        device: torch.device,
        *,
        compiled: bool = False,
    ) -> None:
        """`networks` are the learners', with their first weights."""
        self.learners = [
            TensorLearner(TensorPolicy(architecture, device, network, compiled=compiled), own)
            for architecture, network, own in zip(architectures, networks, settings, strict=True)
        ]
        self.places = [
            TensorPolicy(architectures[0], device, deepcopy(networks[0]), compiled=False) for _ in range(places)
        ]
        self.frozen = [self.learners[0].policy.weights() for _ in range(places)]  # as loaded, by place
        self.changed = True  # whether places must be loaded

    def weights(self, policy: int) -> NDArray[np.float32]:
        count = len(self.learners)
        return self.learners[policy].policy.weights() if policy < count else self.frozen[policy - count]

    def load(self, policy: int, flat: NDArray[np.float32]) -> None:
        count = len(self.learners)
        if policy < count:
            self.learners[policy].policy.load(flat)
        else:
            self.frozen[policy - count], self.changed = flat.copy(), True

    def fill_places(self, filled: int) -> None:
        """Load what the frozen places play; those beyond the filled ones repeat them."""
        for place, policy in enumerate(self.places):
            policy.load(self.frozen[place % max(1, filled)])
        self.changed = False

    def training_state(self, policy: int) -> StateArrays:
        return self.learners[policy].state()

    def load_training_state(self, policy: int, state: StateArrays) -> None:
        self.learners[policy].load_state(state)

    def set_anchor(self, policy: int, flat: NDArray[np.float32]) -> None:
        raise NotImplementedError("kl_anchor is not computed on the device")

    def set_scaler(self, policy: int, shift: NDArray[np.float32], scale: NDArray[np.float32]) -> None:
        raise NotImplementedError("observations are not normalised on the device")

    def take_moments(self) -> ObservationMoments:
        raise NotImplementedError("observations are not normalised on the device")
