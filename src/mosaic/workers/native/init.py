"""Initialization of a native run from policies that another run trained."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mosaic.core.errors import FormatError, InputError
from mosaic.store.checkpoints import find_checkpoint
from mosaic.store.policies.run_policy import parse_init
from mosaic.store.store import Store
from mosaic.workers.native.policies import weights_file

if TYPE_CHECKING:  # these import numba
    from numpy.typing import NDArray

    from mosaic.learners.base import Assembled
    from mosaic.learners.normalization import RunningMoments

TRAINING = "training.safetensors"
_OPTIMISER = ("optimiser.first", "optimiser.second", "optimiser.count")


def start_from(reference: str, assembled: Assembled) -> None:
    """Load the weights, and with `optimizer=true` the optimizer, of networks with the same shape."""
    from mosaic.models.weights_file import load_weights

    run, which, policy, with_optimiser = parse_init(reference)
    checkpoint = find_checkpoint(Store().resolve(run), which)
    state = load_training(checkpoint.path / TRAINING)
    learner = assembled.learner
    for number, name in enumerate(learner.plan.names):
        source = policy or (name if name in checkpoint.manifest.policies else next(iter(checkpoint.manifest.policies)))
        saved = load_weights(checkpoint.path / weights_file(checkpoint, source))
        if saved.architecture != assembled.architectures[number]:
            raise InputError(
                f"'{reference}' has another network than this run: {saved.architecture} instead of "
                f"{assembled.architectures[number]}. Set hidden, activation and share_layers alike."
            )
        learner.load(number, saved.flat, _moments(reference, source, state, learner.scaler(number)))
        if with_optimiser:
            learner.load_optimiser(number, {key: state[f"{source}/{key}"] for key in _OPTIMISER})


def load_training(path: Path) -> dict[str, NDArray[Any]]:
    """Read the part of a checkpoint besides weights: optimizers, scalers, opponents and envs."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_file():
        raise InputError(f"There is no file {path}: this checkpoint can be played, but not trained further.")
    try:
        state = load_file(path)
    except SafetensorError as error:
        raise FormatError(f"{path} is not a safetensors file: {error}") from error
    check_training(state, str(path))
    return state


def check_training(state: Mapping[str, NDArray[Any]], where: str) -> None:
    """Raise if an optimizer, a scaler or an opponent is not finite: one update would make the weights NaN.

    The envs' own numbers, whose names begin with WORKER_PREFIX, may be anything.
    """
    from mosaic.learners.base import WORKER_PREFIX
    from mosaic.models.weights_file import check_finite

    for name, array in state.items():
        if "/" in name or not name.startswith(WORKER_PREFIX):
            check_finite(array, f"{where}: the numbers of '{name}'")


def _moments(
    reference: str, policy: str, state: dict[str, NDArray[Any]], wanted: RunningMoments | None
) -> RunningMoments | None:
    """Return the other run's observation normalization: its weights are meaningless without it."""
    from mosaic.learners.normalization import RunningMoments

    seen = RunningMoments.from_arrays(f"{policy}/seen", state) if f"{policy}/seen.count" in state else None
    normalised = seen is not None and seen.count > 0
    if normalised != (wanted is not None):
        does, other = ("true", "false") if normalised else ("false", "true")
        raise InputError(
            f"'{reference}' was trained with normalize_observations {does}, this run has {other}: "
            f"set normalize_observations to {does}."
        )
    return seen if normalised else None
