"""Layout and initial values of a dense network's flat weight vector."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.models.architecture import Architecture

POLICY, VALUE, LOG_STD = "policy.", "value.", "log_std"

_HIDDEN_GAIN, _POLICY_GAIN, _VALUE_GAIN = math.sqrt(2), 0.01, 1.0


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
    """Return policy.0.weight [in, out], policy.0.bias, …, value.0.weight, …, log_std, contiguous in this order."""
    if not architecture.plain:
        raise InputError("Only a network of dense layers has this layout; pictures and memory need the torch engine.")
    shapes: list[tuple[str, tuple[int, ...]]] = []
    for name, dims in ((POLICY, policy_dims(architecture)), (VALUE, value_dims(architecture))):
        for layer, (width_in, width_out) in enumerate(pairwise(dims)):
            shapes += [(f"{name}{layer}.weight", (width_in, width_out)), (f"{name}{layer}.bias", (width_out,))]
    if architecture.head.kind == "gaussian":
        shapes.append((LOG_STD, (architecture.head.width,)))
    found: list[Tensor] = []
    for name, shape in shapes:
        found.append(Tensor(name, found[-1].end if found else 0, shape))
    return tuple(found)


def critic_place(architecture: Architecture) -> slice:
    """Return where the critic is in the flat weights."""
    critic = [tensor for tensor in tensors(architecture) if tensor.name.startswith(VALUE)]
    return slice(critic[0].start, critic[-1].end)


def policy_dims(architecture: Architecture) -> tuple[int, ...]:
    """Return the widths from input to output; a shared net has the value as one more output, the last."""
    return (architecture.observation, *architecture.hidden, architecture.head.width + int(architecture.shared))


def value_dims(architecture: Architecture) -> tuple[int, ...]:
    """Return the widths from input to output; empty if shared."""
    if architecture.shared:
        return ()
    return (architecture.critic_observation or architecture.observation, *architecture.critic_layers, 1)


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
