"""Start of a run from the networks of another: `training.init`."""

from __future__ import annotations

from typing import Any

import numpy as np

from mosaic.core.errors import InputError
from mosaic.store.policies.init_source import InitSource
from mosaic.workers.sb3.checkpoint.writer import algorithm_of
from mosaic.workers.sb3.state import load_learned, read_state


def start_model(source: InitSource, model: Any, normalizer: Any, *, normalizes: bool) -> None:
    """Load networks and learned coefficients, with `optimizer=true` the optimizers too; raise if they do not fit.

    `normalizer` is the run's VecNormalize, if it has one: the networks are meaningless without its moments.
    """
    checkpoint, reference = source.checkpoint, source.reference
    if checkpoint is None or checkpoint.manifest.worker != "sb3":
        raise InputError(
            f"'{reference}' was not saved by a run of the worker sb3, which starts from networks of such runs alone."
        )
    if source.policy is not None and source.policy not in checkpoint.manifest.policies:
        known = ", ".join(checkpoint.manifest.policies)
        raise InputError(f"'{reference}' has no policy '{source.policy}'. It has: {known}.")
    numbers, arrays = read_state(checkpoint.path)
    saved, here = numbers.get("algorithm"), algorithm_of(model)
    if saved != here:
        raise InputError(f"'{reference}' was trained with {saved}, this run trains with {here}. Type: --algo {saved}")
    _check_shapes(reference, model, arrays)
    load_learned(model, numbers, arrays, f"'{reference}'", optimizer=source.optimizer)
    normalized = "normalize/obs_rms/mean" in arrays
    if normalized != normalizes:
        does, other = ("true", "false") if normalized else ("false", "true")
        raise InputError(
            f"'{reference}' was trained with normalize_observations {does}, this run has {other}: set "
            f"normalize_observations to {does}."
        )
    if normalized and normalizer is not None:
        for part in ("mean", "var", "count"):
            setattr(normalizer.obs_rms, part, arrays[f"normalize/obs_rms/{part}"])


def _check_shapes(reference: str, model: Any, arrays: dict[str, np.ndarray[Any, Any]]) -> None:
    here = {name: tuple(tensor.shape) for name, tensor in model.policy.state_dict().items()}
    start = "state/policy/"
    there = {name.removeprefix(start): array.shape for name, array in arrays.items() if name.startswith(start)}
    for name in (*here, *there):
        if here.get(name) != there.get(name):
            raise InputError(
                f"'{reference}' has another network than this run: '{name}' has the shape {there.get(name)} there and "
                f"{here.get(name)} here. Set net_arch and the other options of the network alike."
            )
