"""How the weights of a network are kept in one file: safetensors, with the architecture in its metadata."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.models.architecture import Architecture
from mosaic.models.layout import Tensor, tensors

FORMAT = "mosaic-network-1"
WHOLE = "weights"  # of a network that is not plain, or a user's own: one tensor, in the order of its engine
EXTRA = "extra."


class NotFiniteError(MosaicError):
    """Weights that are NaN or infinite."""


class SavedNetwork(NamedTuple):
    architecture: Architecture
    flat: NDArray[np.float32]
    extra: dict[str, NDArray[Any]]  # what belongs to the weights: an observation scaler, the optimiser


def save_weights(
    path: Path,
    architecture: Architecture,
    flat: NDArray[np.float32],
    extra: Mapping[str, NDArray[Any]] | None = None,
    *,
    own_network: bool = False,
) -> None:
    """Whole or not at all: written beside the place, then moved there.

    `own_network`: a user's network, of whose tensors the architecture knows nothing.
    """
    from safetensors.numpy import save_file

    check_finite(flat, f"The weights for {path.name}")
    arrays: dict[str, NDArray[Any]] = {
        tensor.name: tensor.of(flat) for tensor in _places(architecture, flat.size, own_network)
    }
    arrays.update({EXTRA + name: np.ascontiguousarray(array) for name, array in (extra or {}).items()})
    facts = {"format": FORMAT, "architecture": architecture.to_json()}
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(arrays, beside, {"mosaic": json.dumps(facts)})
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def check_finite(weights: NDArray[Any], what: str) -> None:
    """Raise for weights that are not numbers: a policy that has them plays nonsense without a word."""
    if weights.dtype.kind == "f" and not np.isfinite(weights).all():
        count = int(weights.size - np.isfinite(weights).sum())
        raise NotFiniteError(
            f"{what} are not finite: {count:,} of {weights.size:,} are NaN or infinite. Training has diverged; "
            "resume an earlier checkpoint or train again with a smaller learning_rate."
        )


def load_weights(path: Path) -> SavedNetwork:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with safe_open(path, "numpy") as file:
            facts = json.loads((file.metadata() or {}).get("mosaic", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, ValueError) as error:
        raise FormatError(f"{path} is not a safetensors file of ours: {error}") from error
    if facts.get("format") != FORMAT:
        raise FormatError(f"{path} does not hold the weights of a network ({FORMAT}).")
    architecture = Architecture.from_json(facts.get("architecture"))
    for name, array in arrays.items():
        check_finite(array, f"{path}: the numbers of '{name}'")
    extra = {name.removeprefix(EXTRA): array for name, array in arrays.items() if name.startswith(EXTRA)}
    return SavedNetwork(architecture, _flat(path, architecture, arrays), extra)


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
