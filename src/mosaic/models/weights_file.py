"""Network weight files: safetensors, with the architecture in the metadata."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.core.files import replace_file
from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.architecture import Activation, Architecture
from mosaic.models.layout import LOG_STD, POLICY, Tensor, count_weights, tensors

FORMAT = "mosaic-network-1"
WHOLE = "weights"  # for a network that is not plain, or a user's own: one tensor, in the order of its engine
EXTRA = "extra."


class NotFiniteError(MosaicError):
    """Weights that are NaN or infinite."""


class SavedNetwork(NamedTuple):
    architecture: Architecture
    flat: NDArray[np.float32]
    extra: dict[str, NDArray[Any]]  # arrays that belong to the weights: an observation scaler, the optimiser state


def save_weights(
    path: Path,
    architecture: Architecture,
    flat: NDArray[np.float32],
    extra: Mapping[str, NDArray[Any]] | None = None,
    *,
    own_network: bool = False,
) -> None:
    """Write the file atomically.

    `own_network`: a user's network, whose tensors the architecture does not describe.
    """
    from safetensors.numpy import save_file

    check_finite(flat, f"The weights for {path.name}")
    arrays: dict[str, NDArray[Any]] = {
        tensor.name: tensor.of(flat) for tensor in _places(architecture, flat.size, own_network)
    }
    arrays.update({EXTRA + name: np.ascontiguousarray(array) for name, array in (extra or {}).items()})
    facts = {"format": FORMAT, "architecture": architecture.to_json()}
    metadata = {"mosaic": json.dumps(facts)}
    replace_file(path, lambda temporary: save_file(arrays, temporary, metadata))


def save_policy_network(
    path: Path | str,
    layers: Sequence[tuple[ArrayLike, ArrayLike]],
    *,
    activation: Activation = "tanh",
    action_sizes: Sequence[int] | None = None,
    log_std: ArrayLike | None = None,
) -> None:
    """Save dense layers as a file that plays as a policy, for example as the checkpoint of your own program.

    Each layer is (weight [inputs, outputs], bias [outputs]); torch's Linear holds its weight transposed. The activation
    follows all layers but the last, whose outputs are the logits of a Discrete action. `action_sizes` are the numbers
    of choices of each part of a MultiDiscrete action. `log_std` makes the outputs the means of a Box action.
    """
    weights = [(np.asarray(weight, np.float32), np.asarray(bias, np.float32)) for weight, bias in layers]
    _check_layers(weights)
    width = weights[-1][1].size
    sizes = (width,) if action_sizes is None else tuple(action_sizes)
    if sum(sizes) != width or (log_std is not None and (action_sizes is not None or np.size(log_std) != width)):
        raise InputError(f"The last layer has {width} outputs, which fit neither action_sizes nor log_std as given.")
    network = Architecture(
        observation=weights[0][0].shape[0],
        head=ActionHead("categorical" if log_std is None else "gaussian", sizes),
        hidden=tuple(bias.size for _, bias in weights[:-1]),
        activation=activation,
        critic_hidden=(),
    )
    named: dict[str, Any] = {LOG_STD: log_std}
    for number, (weight, bias) in enumerate(weights):
        named |= {f"{POLICY}{number}.weight": weight, f"{POLICY}{number}.bias": bias}
    flat = np.zeros(count_weights(network), np.float32)
    for tensor in tensors(network):
        if tensor.name in named:
            tensor.of(flat)[:] = named[tensor.name]
    save_weights(Path(path), network, flat)


def _check_layers(layers: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]) -> None:
    if not layers:
        raise InputError("A network needs at least one layer: give (weight [inputs, outputs], bias [outputs]).")
    width = layers[0][0].shape[0] if layers[0][0].ndim else 0
    for number, (weight, bias) in enumerate(layers):
        if weight.ndim != 2 or weight.shape != (width, bias.size):
            raise InputError(
                f"Layer {number} has a weight of shape {weight.shape} and a bias of shape {bias.shape}; expected a "
                f"weight [{width}, outputs] and a bias [outputs]. Transpose weights that are [outputs, inputs]."
            )
        width = bias.size


def check_finite(weights: NDArray[Any], what: str, error: type[MosaicError] = NotFiniteError) -> None:
    """Raise the error if weights are not finite: a policy with such weights silently plays nonsense."""
    if weights.dtype.kind == "f" and not np.isfinite(weights).all():
        count = int(weights.size - np.isfinite(weights).sum())
        raise error(
            f"{what} are not finite: {count:,} of {weights.size:,} are NaN or infinite. Training has diverged, or "
            "an observation or a reward of the env was not finite, which mosaic check ENV finds; resume an earlier "
            "checkpoint or train again with a smaller learning_rate."
        )


def load_weights(path: Path) -> SavedNetwork:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {}).get("mosaic", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError, RecursionError) as error:
        raise FormatError(f"{path} is not a safetensors file of Mosaic: {error}") from error
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise FormatError(f"{path} does not hold the weights of a network ({FORMAT}).")
    architecture = Architecture.from_json(facts.get("architecture"))
    for name, array in arrays.items():
        check_finite(array, f"{path}: the numbers of '{name}'", FormatError)
    extra = {name.removeprefix(EXTRA): array for name, array in arrays.items() if name.startswith(EXTRA)}
    return SavedNetwork(architecture, _flat(path, architecture, arrays), extra)


def check_size(saved: SavedNetwork, path: Path) -> None:
    """Raise FormatError for a network with layers larger than all weights in its file, before it takes the memory."""
    made = saved.architecture
    least = max((wide * next_wide for wide, next_wide in pairwise(made.hidden)), default=0)
    if made.memory == "mingru":  # it has two gates, which read the input alone, or what is found in pictures
        least = max(least, 2 * made.memory_size * (1 if made.parts else made.observation))
    elif made.memory is not None:
        least = max(least, 3 * made.memory_size**2)  # a GRU has three gates, an LSTM four
    if least > saved.flat.size:
        raise FormatError(f"{path} has {saved.flat.size:,} weights; its architecture needs {least:,} or more: {made}.")


def _flat(path: Path, architecture: Architecture, arrays: Mapping[str, NDArray[Any]]) -> NDArray[np.float32]:
    size = sum(array.size for name, array in arrays.items() if not name.startswith(EXTRA))
    flat = np.zeros(size, np.float32)
    for tensor in _places(architecture, size, WHOLE in arrays):
        kept = arrays.get(tensor.name)
        if kept is None or kept.shape != tensor.shape or kept.dtype != np.float32:
            found = "nothing" if kept is None else f"{kept.dtype} of shape {kept.shape}"
            raise FormatError(
                f"{path}: the architecture asks for {tensor.name} as float32 of shape {tensor.shape}, "
                f"but the file holds {found}."
            )
        tensor.of(flat)[:] = kept
    return flat


def _places(architecture: Architecture, size: int, whole: bool) -> tuple[Tensor, ...]:
    if whole or not architecture.plain:
        return (Tensor(WHOLE, 0, (size,)),)
    places = tensors(architecture)
    if places[-1].end != size:
        raise FormatError(f"These are {size} weights, but the architecture has {places[-1].end}: {architecture}.")
    return places
