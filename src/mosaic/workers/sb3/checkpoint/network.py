"""SB3's networks in torch, for acting only: images, memory, any activation, any distribution."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from mosaic.core.errors import FormatError
from mosaic.workers.sb3.checkpoint.facts import Sb3Policy, Weights
from mosaic.workers.sb3.checkpoint.layers import MEMORY, Layer, PolicyLayers
from mosaic.workers.sb3.checkpoint.rows import Part, row_parts

_STRIDES = (4, 2, 1)  # of NatureCNN, whose layers have no others
_KERNELS = (8, 4, 3)
_EXTRACTORS = {"actor_critic": "pi_features_extractor.", "values": "q_net.features_extractor.",
               "quantiles": "quantile_net.features_extractor."}  # fmt: skip
_SDE_EPSILON = 1e-6

Memory = tuple[Tensor, Tensor]  # hidden and cell states [layers, rows, size] of an LSTM


class NetworkOutputs(NamedTuple):
    outputs: Tensor  # logits, means or values of the actions [rows, width]
    latent: Tensor  # what the last layer reads [rows, …]
    memory: Memory | None


class Sb3Network(nn.Module):
    """Network of a policy: rows to outputs, with the memory of each row if there is one."""

    def __init__(self, policy: Sb3Policy, layers: PolicyLayers) -> None:
        super().__init__()
        facts = policy.facts
        self._activation: nn.Module = getattr(nn, facts.activation)()
        prefix = _EXTRACTORS.get(facts.family, "actor.features_extractor.")
        parts = row_parts(facts.observation)
        self._parts = [(part, _convolutions(policy.weights, prefix, part)) for part in parts]
        width = sum(part.size if found is None else len(found[-1][1]) for part, found in self._parts)
        self.row_width = parts[-1].start + parts[-1].size
        self.lstm = _memory(policy.weights, width)
        self.body = [_tensors(layer) for layer in layers.body]
        self.head = _tensors(layers.head)
        self.clip_mean = facts.clip_mean if facts.use_sde and facts.family == "squashed" else 0.0
        reads = width if self.lstm is None else self.lstm.hidden_size
        if layers.inputs != reads:
            raise FormatError(f"The first layer reads {layers.inputs} numbers, but its features are {reads}.")

    def forward(self, rows: Tensor, memory: Memory | None = None) -> NetworkOutputs:
        x = torch.cat([_features(rows, part, layers) for part, layers in self._parts], 1)
        if self.lstm is not None:
            x, memory = self.lstm(x.unsqueeze(0), memory)
            x = x[0]
        for weight, bias in self.body:
            x = self._activation(functional.linear(x, weight, bias))
        outputs = functional.linear(x, *self.head)
        if self.clip_mean > 0:
            outputs = outputs.clamp(-self.clip_mean, self.clip_mean)
        return NetworkOutputs(outputs, x, memory)

    def fresh_memory(self, rows: int) -> Memory | None:
        if self.lstm is None:
            return None
        zeros = torch.zeros(self.lstm.num_layers, rows, self.lstm.hidden_size)
        return zeros, zeros


class Deviations:
    """Deviations of a Gaussian policy, for a batch of rows."""

    def __init__(self, policy: Sb3Policy, layers: PolicyLayers) -> None:
        facts, found = policy.facts, layers.deviations
        assert found is not None
        self._layer = _tensors(found) if isinstance(found, Layer) else None
        self._log = None if isinstance(found, Layer) else torch.from_numpy(found)
        self._expln = facts.use_expln
        self.noise: Tensor | None = None  # gSDE: matrix from latent to noise, constant until drawn again
        self.uses_sde = facts.use_sde
        wanted = layers.head.inputs if facts.use_sde else layers.head.outputs
        if self._log is not None and self._log.shape[0] != wanted:
            raise FormatError(f"log_std has the shape {tuple(self._log.shape)}, which does not fit {wanted} numbers.")

    def draw_noise(self, generator: torch.Generator, outputs: int) -> None:
        """Draw the matrix of gSDE, as SB3 does when a rollout begins."""
        if self.uses_sde:
            deviations = self._sde_deviations(outputs)
            self.noise = deviations * torch.randn(deviations.shape, generator=generator)

    def draw(self, found: NetworkOutputs, generator: torch.Generator, temperature: float) -> Tensor:
        means = found.outputs
        if self.uses_sde:
            assert self.noise is not None
            return means + temperature * (found.latent @ self.noise)
        if self._layer is not None:
            logs = functional.linear(found.latent, *self._layer).clamp(-20.0, 2.0)  # SB3's limits
        else:
            assert self._log is not None
            logs = self._log
        return means + temperature * logs.exp() * torch.randn(means.shape, generator=generator)

    def _sde_deviations(self, outputs: int) -> Tensor:
        log = self._log
        assert log is not None
        if not self._expln:
            deviations = log.exp()
        else:
            above = (log * (log > 0) + _SDE_EPSILON).log1p() + 1.0
            deviations = torch.where(log > 0, above, log.exp())
        return deviations.expand(log.shape[0], outputs)


def _features(rows: Tensor, part: Part, layers: list[tuple[Tensor, Tensor]] | None) -> Tensor:
    seen = rows[:, part.start : part.start + part.size]
    if layers is None:
        return seen
    x = seen.reshape(-1, *part.shape)
    for layer, stride in zip(layers[:-1], _STRIDES, strict=True):
        x = functional.conv2d(x, *layer, stride=stride).relu()
    return functional.linear(x.flatten(1), *layers[-1]).relu()


def _convolutions(weights: Weights, prefix: str, part: Part) -> list[tuple[Tensor, Tensor]] | None:
    """Return the layers of NatureCNN for one part; None where it is flattened."""
    start = prefix if part.key is None else f"{prefix}extractors.{part.key}."
    own = {name for name in weights if name.startswith(start)}
    if not own:
        return None
    names = [*(f"{start}cnn.{place}." for place in (0, 2, 4)), f"{start}linear.0."]
    wanted = {f"{name}{kind}" for name in names for kind in ("weight", "bias")}
    if own != wanted:
        raise FormatError(f"'{min(own ^ wanted)}' is not a part of SB3's NatureCNN: a features extractor of its own.")
    layers = [Layer(weights[f"{name}weight"], weights[f"{name}bias"]) for name in names]
    channels, height, width = part.shape if len(part.shape) == 3 else (0, 0, 0)
    for layer, kernel, stride in zip(layers[:-1], _KERNELS, _STRIDES, strict=True):
        if layer.weight.shape[1:] != (channels, kernel, kernel) or layer.bias.shape != layer.weight.shape[:1]:
            raise FormatError(f"A convolution has the shape {layer.weight.shape}; images of {part.shape} need another.")
        channels = layer.outputs
        height, width = ((size - kernel) // stride + 1 for size in (height, width))
    last = layers[-1]
    if last.weight.ndim != 2 or last.inputs != prod((channels, height, width)) or last.bias.shape != (last.outputs,):
        raise FormatError(
            f"The layer after the convolutions has the shape {last.weight.shape}: images are {part.shape}."
        )
    return [_tensors(layer) for layer in layers]


def _memory(weights: Weights, inputs: int) -> nn.LSTM | None:
    state = {name.removeprefix(MEMORY): array for name, array in weights.items() if name.startswith(MEMORY)}
    if not state:
        return None
    try:
        size, layers = state["weight_hh_l0"].shape[1], sum(name.startswith("weight_hh_l") for name in state)
        lstm = nn.LSTM(inputs, size, layers, bias="bias_hh_l0" in state)
        lstm.load_state_dict({name: torch.from_numpy(array) for name, array in state.items()})
    except (KeyError, IndexError, RuntimeError) as error:
        raise FormatError(f"The weights of '{MEMORY}' are not those of an LSTM that reads {inputs}: {error}") from error
    return lstm.requires_grad_(False).eval()


def _tensors(layer: Layer) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(layer.weight), torch.from_numpy(layer.bias)
