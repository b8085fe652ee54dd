"""Networks in torch: built from an architecture, or a user's own module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, cast, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.core.errors import InputError
from mosaic.core.user_code import load_code
from mosaic.models.architecture import Architecture
from mosaic.models.engine import check_size
from mosaic.models.layout import VALUE, initial_weights, tensors
from mosaic.models.torch_modules import Encoder, Memory, Mlp, start_orthogonal


class NetworkOutput(NamedTuple):
    """Output of a network for rows: logits or means [..., width], and the value of each row [...]."""

    outputs: Tensor
    value: Tensor


@runtime_checkable
class Recurrent(Protocol):
    """A network with memory: it is unrolled over time instead of being called."""

    @property
    def state_size(self) -> int: ...

    def unroll(self, obs: Tensor, critic_obs: Tensor, state: Tensor, first: Tensor) -> tuple[NetworkOutput, Tensor]:
        """Process rows [L, N, …] from the states [N, state_size] on, which are reset where `first` [L, N] is 1."""
        ...


class TorchNet(nn.Module):
    """An architecture in torch: images → features → memory → the same dense layers as in the fused engine."""

    def __init__(self, architecture: Architecture, seed: int, log_std: float = 0.0) -> None:
        super().__init__()
        features = architecture.observation
        self.encoder: Encoder | None = None
        self.memory: Memory | None = None
        if any(part.picture for part in architecture.parts):
            self.encoder = Encoder(architecture.parts)
            features = self.encoder.features
        if architecture.memory is not None:
            self.memory = Memory(features, architecture.memory_size, architecture.memory)
            features = self.memory.features
        self._dense = replace(architecture, observation=features, parts=(), memory=None)
        self._add_dense_layers(self._dense)
        self._start(seed, log_std)

    def _add_dense_layers(self, dense: Architecture) -> None:
        head, activation = dense.head, dense.activation
        self.policy = Mlp((dense.observation, *dense.hidden, head.width + dense.shared), activation)
        self.value: Mlp | None = None
        if not dense.shared:
            self.value = Mlp((dense.critic_observation or dense.observation, *dense.critic_layers, 1), activation)
        self.log_std: nn.Parameter | None = None
        if head.kind == "gaussian":
            self.log_std = nn.Parameter(torch.zeros(head.width))

    def _start(self, seed: int, log_std: float) -> None:
        generator = torch.Generator().manual_seed(seed)
        for part in filter(None, (self.encoder, self.memory)):
            start_orthogonal(part, generator)
        load_flat(self, initial_weights(self._dense, seed, log_std), dense_names(self._dense))

    @property
    def state_size(self) -> int:
        return 0 if self.memory is None else self.memory.state_size

    def forward(self, obs: Tensor, critic_obs: Tensor) -> NetworkOutput:
        return self._answer(obs if self.encoder is None else self.encoder(obs), critic_obs)

    def unroll(self, obs: Tensor, critic_obs: Tensor, state: Tensor, first: Tensor) -> tuple[NetworkOutput, Tensor]:
        features = obs if self.encoder is None else self.encoder(obs)
        assert self.memory is not None
        features, state = self.memory(features, state, first)
        return self._answer(features, critic_obs), state

    def _answer(self, features: Tensor, critic_obs: Tensor) -> NetworkOutput:
        outputs = self.policy(features)
        if self.value is None:
            return NetworkOutput(outputs[..., :-1], outputs[..., -1])
        return NetworkOutput(outputs, self.value(critic_obs if self._dense.critic_observation else features)[..., 0])


def make_network(architecture: Architecture, seed: int, log_std: float = 0.0, module: str | None = None) -> nn.Module:
    """Return the network of an architecture, or the one that `python:MODULE:FACTORY` makes for it."""
    if module is None:
        return TorchNet(architecture, seed, log_std)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)  # the user's layers draw their initial weights from the global stream
        made = load_code(module)(architecture)
    _check(module, made, architecture)
    return cast(nn.Module, made)


def _check(reference: str, made: Any, architecture: Architecture) -> None:
    """Raise an error that names the violated requirement, before the first rollout fails on it."""
    if not isinstance(made, nn.Module):
        raise InputError(
            f"'{reference}' made a {type(made).__name__}. A network's factory takes the architecture and returns a "
            "torch.nn.Module whose forward(obs, critic_obs) gives (logits or means [rows, width], values [rows])."
        )
    head = architecture.head
    scale = getattr(made, "log_std", None)
    if head.kind == "gaussian" and (not isinstance(scale, Tensor) or tuple(scale.shape) != (head.width,)):
        raise InputError(
            f"'{reference}': actions are {head.width} numbers drawn from a normal distribution, so the module needs "
            f"log_std = torch.nn.Parameter(torch.zeros({head.width}))."
        )
    obs = torch.zeros(2, architecture.observation)
    critic_obs = torch.zeros(2, architecture.critic_observation)
    with torch.no_grad():
        if isinstance(made, Recurrent) and made.state_size:
            state = torch.zeros(2, made.state_size)
            (outputs, value), _ = made.unroll(obs[None], critic_obs[None], state, torch.ones(1, 2))
            outputs, value = outputs[0], value[0]
        else:
            outputs, value = made(obs, critic_obs)
    if tuple(outputs.shape) != (2, head.width) or tuple(value.shape) != (2,):
        raise InputError(
            f"'{reference}': for 2 rows the module gave outputs of shape {tuple(outputs.shape)} and values of shape "
            f"{tuple(value.shape)}; it must give (2, {head.width}) and (2,)."
        )


def state_size(network: nn.Module) -> int:
    """Return how many numbers the network remembers for each slot; 0 for one without memory."""
    return int(network.state_size) if isinstance(network, Recurrent) else 0


def scale_of(network: nn.Module) -> Tensor | None:
    """Return the log standard deviations of a Gaussian head."""
    scale = getattr(network, "log_std", None)
    return scale if isinstance(scale, Tensor) else None


def dense_names(architecture: Architecture) -> tuple[str, ...]:
    return tuple(tensor.name for tensor in tensors(architecture))


def tensor_names(network: nn.Module, architecture: Architecture) -> tuple[str, ...]:
    """Return the network's tensor names in the order of its flat weights."""
    if isinstance(network, TorchNet) and architecture.plain:
        return dense_names(architecture)
    return tuple(network.state_dict())


def critic_place(network: nn.Module, names: tuple[str, ...]) -> slice:
    """Return where the critic of a `TorchNet` is in its flat weights."""
    state, start, end, place = network.state_dict(), 0, 0, 0
    for name in names:
        before, place = place, place + state[name].numel()
        if name.startswith(VALUE):
            start, end = (start if end else before), place
    return slice(start, end)


def flat_weights(network: nn.Module, names: tuple[str, ...]) -> NDArray[np.float32]:
    state = network.state_dict()
    return np.concatenate([state[name].detach().cpu().numpy().astype(np.float32).ravel() for name in names])


def load_flat(network: nn.Module, flat: NDArray[np.float32], names: tuple[str, ...]) -> None:
    """Write flat weights into the named tensors of the network."""
    state = network.state_dict()
    check_size(flat, sum(state[name].numel() for name in names))
    with torch.no_grad():
        for name, values in zip(names, _pieces(flat, [state[name].numel() for name in names]), strict=True):
            state[name].copy_(torch.from_numpy(values.copy()).reshape(state[name].shape))


def _pieces(flat: NDArray[np.float32], sizes: list[int]) -> Iterator[NDArray[np.float32]]:
    start = 0
    for size in sizes:
        yield flat[start : start + size]
        start += size
