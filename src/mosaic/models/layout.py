"""Layout and initial values of a network's flat weight vector: dense layers, and a gated memory before them."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.models.architecture import Architecture

POLICY, VALUE, LOG_STD, MEMORY = "policy.", "value.", "log_std", "memory."

_HIDDEN_GAIN, _POLICY_GAIN, _VALUE_GAIN, _MEMORY_GAIN = math.sqrt(2), 0.01, 1.0, 1.0


class Tensor(NamedTuple):
    """A named range of the flat weights."""

    name: str
    start: int
    shape: tuple[int, ...]

    @property
    def end(self) -> int:
        return self.start + math.prod(self.shape)

    def of(self, flat: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return this tensor as a view of the flat weights."""
        return flat[self.start : self.end].reshape(self.shape)


def tensors(architecture: Architecture) -> tuple[Tensor, ...]:
    """Return policy.0.weight [in, out], policy.0.bias, …, value.0.weight, …, log_std, contiguous in this order.

    With memory, the order is that of the torch engine's tensors: log_std, the memory's, policy, value.
    """
    if not architecture.fusible:
        raise InputError("A network with pictures or an LSTM has no such layout: it needs the torch engine.")
    scale = [(LOG_STD, (architecture.head.width,))] if architecture.head.kind == "gaussian" else []
    dense = _dense_shapes(architecture)
    shapes = [*dense, *scale] if architecture.memory is None else [*scale, *_memory_shapes(architecture), *dense]
    found: list[Tensor] = []
    for name, shape in shapes:
        found.append(Tensor(name, found[-1].end if found else 0, shape))
    return tuple(found)


def _memory_shapes(architecture: Architecture) -> list[tuple[str, tuple[int, ...]]]:
    inputs, size = architecture.observation, architecture.memory_size
    if architecture.memory == "mingru":
        return [(f"{MEMORY}cell.weight", (2 * size, inputs)), (f"{MEMORY}cell.bias", (2 * size,))]
    return [
        (f"{MEMORY}cell.weight_ih", (3 * size, inputs)),
        (f"{MEMORY}cell.weight_hh", (3 * size, size)),
        (f"{MEMORY}cell.bias_ih", (3 * size,)),
        (f"{MEMORY}cell.bias_hh", (3 * size,)),
    ]


def _dense_shapes(architecture: Architecture) -> list[tuple[str, tuple[int, ...]]]:
    shapes: list[tuple[str, tuple[int, ...]]] = []
    for name, dims in ((POLICY, policy_dims(architecture)), (VALUE, value_dims(architecture))):
        for layer, (width_in, width_out) in enumerate(pairwise(dims)):
            shapes += [(f"{name}{layer}.weight", (width_in, width_out)), (f"{name}{layer}.bias", (width_out,))]
    return shapes


def critic_place(architecture: Architecture) -> slice:
    """Return where the critic is in the flat weights."""
    critic = [tensor for tensor in tensors(architecture) if tensor.name.startswith(VALUE)]
    return slice(critic[0].start, critic[-1].end)


def policy_dims(architecture: Architecture) -> tuple[int, ...]:
    """Return the widths from input to output; a shared net has the value as one more output, the last."""
    return (architecture.features, *architecture.hidden, architecture.head.width + int(architecture.shared))


def value_dims(architecture: Architecture) -> tuple[int, ...]:
    """Return the widths from input to output; empty if shared."""
    if architecture.shared:
        return ()
    return (architecture.critic_observation or architecture.features, *architecture.critic_layers, 1)


def count_weights(architecture: Architecture) -> int:
    return tensors(architecture)[-1].end


def initial_weights(architecture: Architecture, seed: int, log_std: float = 0.0) -> NDArray[np.float32]:
    """Return the usual initial weights for PPO: orthogonal matrices, all actions nearly equally likely, biases 0."""
    random = np.random.default_rng(seed)
    places = tensors(architecture)
    flat = np.zeros(places[-1].end, np.float32)
    last = {POLICY: len(architecture.hidden), VALUE: len(architecture.critic_layers)}
    for tensor in places:
        if tensor.name == LOG_STD:
            tensor.of(flat)[:] = log_std
        elif tensor.name.startswith(MEMORY):
            if len(tensor.shape) == 2:
                tensor.of(flat)[:] = orthogonal(random, *tensor.shape, _MEMORY_GAIN)
        elif len(tensor.shape) == 2:
            net, layer, _ = tensor.name.split(".")
            tensor.of(flat)[:] = _first_matrix(random, architecture, tensor.shape, f"{net}.", last, int(layer))
    return flat


def _first_matrix(
    random: np.random.Generator,
    architecture: Architecture,
    shape: tuple[int, ...],
    net: str,
    last: dict[str, int],
    layer: int,
) -> NDArray[np.float64]:
    rows, columns = shape
    if layer < last[net]:
        return orthogonal(random, rows, columns, _HIDDEN_GAIN)
    if net == VALUE:
        return orthogonal(random, rows, columns, _VALUE_GAIN)
    if not architecture.shared:
        return orthogonal(random, rows, columns, _POLICY_GAIN)
    actions = orthogonal(random, rows, columns - 1, _POLICY_GAIN)
    return np.concatenate((actions, orthogonal(random, rows, 1, _VALUE_GAIN)), axis=1)


def orthogonal(random: np.random.Generator, rows: int, columns: int, gain: float) -> NDArray[np.float64]:
    long, short = max(rows, columns), min(rows, columns)
    basis, triangle = np.linalg.qr(random.standard_normal((long, short)))
    basis *= np.sign(np.diag(triangle))  # makes the draw uniform over orthogonal matrices
    return gain * (basis if rows >= columns else basis.T)


def apply_temperature(architecture: Architecture, flat: NDArray[np.float32], temperature: float) -> None:
    """Divide the logits that these weights give by the temperature, or multiply the deviations of a Gaussian by it."""
    places = {tensor.name: tensor for tensor in tensors(architecture)}
    if architecture.head.kind == "gaussian":
        places[LOG_STD].of(flat)[:] += np.float32(np.log(temperature))
        return
    last, width, parts = len(architecture.hidden), architecture.head.width, architecture.head.parts
    if architecture.head.kind == "squashed":
        places[f"{POLICY}{last}.bias"].of(flat)[parts:width] += np.float32(np.log(temperature))
        return
    # in a shared net the value comes after the logits
    places[f"{POLICY}{last}.weight"].of(flat)[:, :width] /= np.float32(temperature)
    places[f"{POLICY}{last}.bias"].of(flat)[:width] /= np.float32(temperature)
