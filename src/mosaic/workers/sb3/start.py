"""Start of a run from the networks of another, or from a zip that SB3 wrote: `training.init`."""

from __future__ import annotations

from typing import Any

from mosaic.core.errors import InputError
from mosaic.store.policies.foreign_checkpoint import find_foreign
from mosaic.store.policies.init_source import InitSource
from mosaic.workers.sb3.checkpoint.statistics import Moments
from mosaic.workers.sb3.checkpoint.writer import algorithm_of
from mosaic.workers.sb3.checkpoint.zip_file import POLICY, is_sb3_zip, read_zip
from mosaic.workers.sb3.checkpoint.zip_policy import zip_algorithm, zip_note
from mosaic.workers.sb3.checkpoint.zip_training import ZipStart, network_text, read_start
from mosaic.workers.sb3.state import Arrays, load_learned, read_state

_LEARNED_COEFFICIENT = "log_ent_coef"  # a fixed one is an option of the run
_NAMED = 4  # differences of shapes in a message


def start_model(source: InitSource, model: Any, normalizer: Any, *, normalizes: bool) -> None:
    """Load networks and learned coefficients, with `optimizer=true` the optimizers too; raise if they do not fit.

    `normalizer` is the run's VecNormalize, if it has one: the networks are meaningless without its moments.
    """
    reference = source.reference
    start, network = _read_zip(source, model) if source.checkpoint is None else (_read_checkpoint(source, model), "")
    numbers, arrays = dict(start.numbers), dict(start.arrays)
    _check_shapes(reference, model, arrays, network)
    for name in model._get_torch_save_params()[1]:
        if name != _LEARNED_COEFFICIENT or f"variable/{name}" not in arrays:
            arrays[f"variable/{name}"] = getattr(model, name).detach().cpu().numpy().copy()
    load_learned(model, numbers, arrays, f"'{reference}'", optimizer=source.optimizer)
    if (start.moments is not None) != normalizes:
        does, other = ("false", "true") if normalizes else ("true", "false")
        raise InputError(
            f"'{reference}' was trained with normalize_observations {does}, this run has {other}: set "
            f"normalize_observations to {does}."
        )
    if start.moments is not None and normalizer is not None:
        moments = normalizer.obs_rms
        moments.mean, moments.var, moments.count = start.moments


def start_note(source: InitSource) -> str | None:
    """Return what a zip does not say of itself."""
    if source.checkpoint is not None:
        return None
    return zip_note(find_foreign(source.path).path if source.path.is_dir() else source.path)


def _read_checkpoint(source: InitSource, model: Any) -> ZipStart:
    checkpoint, reference = source.checkpoint, source.reference
    assert checkpoint is not None
    if checkpoint.manifest.worker != "sb3":
        raise InputError(
            f"'{reference}' was saved by a run of the worker {checkpoint.manifest.worker}; the worker sb3 starts from "
            "its own runs and from zips of Stable-Baselines3."
        )
    if source.policy is not None and source.policy not in checkpoint.manifest.policies:
        known = ", ".join(checkpoint.manifest.policies)
        raise InputError(f"'{reference}' has no policy '{source.policy}'. It has: {known}.")
    numbers, arrays = read_state(checkpoint.path)
    _check_algorithm(reference, str(numbers.get("algorithm")), model)
    if "normalize/obs_rms/mean" not in arrays:
        return ZipStart(numbers, arrays, None)
    mean, var, count = (arrays[f"normalize/obs_rms/{part}"] for part in ("mean", "var", "count"))
    return ZipStart(numbers, arrays, Moments(mean, var, float(count)))


def _read_zip(source: InitSource, model: Any) -> tuple[ZipStart, str]:
    path, reference = source.path, source.reference
    if path.is_dir():
        path = find_foreign(path).path
    if not is_sb3_zip(path):
        raise InputError(
            f"'{reference}' is not a zip that Stable-Baselines3 wrote (it has the members data and policy.pth), and "
            "the worker sb3 starts from such a zip or from its own runs."
        )
    if source.policy not in (None, POLICY):
        raise InputError(f"'{reference}': a zip of SB3 holds one policy, without a name. Leave policy out.")
    found = read_zip(path)
    algorithm = zip_algorithm(found)
    _check_algorithm(reference, algorithm, model)
    return read_start(found, algorithm, model, reference, optimizer=source.optimizer), network_text(found)


def _check_algorithm(reference: str, saved: str, model: Any) -> None:
    here = algorithm_of(model)
    if saved != here:
        raise InputError(f"'{reference}' was trained with {saved}, this run trains with {here}. Type: --algo {saved}")


def _check_shapes(reference: str, model: Any, arrays: Arrays, network: str) -> None:
    here = {name: tuple(tensor.shape) for name, tensor in model.policy.state_dict().items()}
    start = "state/policy/"
    there = {name.removeprefix(start): array.shape for name, array in arrays.items() if name.startswith(start)}
    different = [name for name in {**here, **there} if here.get(name) != there.get(name)]
    if different:
        named = [
            f"'{name}' is {_shape(there.get(name))} there and {_shape(here.get(name))} here"
            for name in different[:_NAMED]
        ]
        more = f" and {len(different) - _NAMED} more" if len(different) > _NAMED else ""
        told = " ".join(filter(None, (network, "Set net_arch and the other options of the network alike.")))
        raise InputError(f"'{reference}' has another network than this run: {'; '.join(named)}{more}. {told}")


def _shape(shape: tuple[int, ...] | None) -> str:
    return "missing" if shape is None else "×".join(map(str, shape)) or "one number"
