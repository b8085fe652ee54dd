"""Statistics of SB3's VecNormalize beside a zip: found by name, and read without unpickling."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError, TrustError
from mosaic.envs.space_json import Document
from mosaic.store.archives.trust import VARIABLE, trust_given
from mosaic.workers.sb3.checkpoint.facts import Array
from mosaic.workers.sb3.checkpoint.pickled_numbers import (
    LARGEST,
    Made,
    UnreadablePickleError,
    array_of,
    fields_of,
    read_pickle,
)
from mosaic.workers.sb3.checkpoint.rows import is_picture, part_documents, row_parts

_STATISTICS = re.compile(r"vec_?norm.*\.(pkl|pickle)$", re.I)  # vecnormalize.pkl, model_vecnormalize_1000_steps.pkl, …
_NORMALIZE = "stable_baselines3.common.vec_env.vec_normalize.VecNormalize"
_MOMENTS = "stable_baselines3.common.running_mean_std.RunningMeanStd"
_ALLOWED = (
    _NORMALIZE,
    _MOMENTS,
    "numpy.dtype",
    "numpy.ndarray",
    "numpy.core.multiarray.",
    "numpy._core.multiarray.",
    "numpy.core.numeric.",
    "numpy._core.numeric.",
    "numpy.random.",
    "gymnasium.spaces.",
    "gym.spaces.",
    "collections.OrderedDict",
)
_MOST = 1 << 22  # numbers of one array
_UNLIMITED = float(np.finfo(np.float32).max)


class Moments(NamedTuple):
    """Mean and variance of one part of an observation, and of how many observations they are."""

    mean: NDArray[np.float64]
    var: NDArray[np.float64]
    observations: float


class VecNormalizeStatistics(NamedTuple):
    """Normalization of observations by VecNormalize: (x - mean) / sqrt(var + epsilon), clipped to ±clip."""

    path: Path
    moments: Mapping[str | None, Moments]  # by key of a Dict; None: the whole observation; empty: rewards alone
    clip: float
    epsilon: float


def statistics_beside(path: Path) -> str | None:
    """Return where a zip's VecNormalize statistics are, from its folder, found by name alone.

    They are beside the zip, or below in a folder with its name or its experiment's, as rl-baselines3-zoo has it. Of
    several, those with the numbers of the zip's name are taken.
    """
    if path.suffix != ".zip" or not path.parent.is_dir():
        return None
    folders = ("", path.stem, re.sub(r"_\d+$", "", path.parent.name))
    for folder in dict.fromkeys(folders):
        inside = path.parent / folder
        names = (
            sorted(each.name for each in inside.iterdir() if _STATISTICS.search(each.name)) if inside.is_dir() else []
        )
        if names:
            return str(Path(folder, _fitting(path, names)))
    return None


def _fitting(path: Path, names: list[str]) -> str:
    numbers = re.findall(r"\d+", path.stem)
    same = [name for name in names if numbers and re.findall(r"\d+", name)[-1:] == numbers[-1:]]
    plain = [name for name in names if not re.search(r"\d", name)]
    chosen = same or plain or names
    if len(chosen) > 1:
        raise InputError(
            f"Beside '{path}' are several statistics of VecNormalize: {', '.join(names)}. Leave the one that belongs "
            "to it there, and move the others."
        )
    return chosen[0]


def read_statistics(path: Path) -> VecNormalizeStatistics:
    """Read a file of statistics without unpickling it; with `--trust` one that holds other objects is unpickled."""
    try:
        if path.stat().st_size > LARGEST:
            raise UnreadablePickleError(f"it has more than {LARGEST:,} bytes")
        return _from_records(path, read_pickle(path.read_bytes(), _ALLOWED))
    except UnreadablePickleError as error:
        if trust_given():
            return _unpickled(path)
        raise TrustError(
            f"'{path}' holds the statistics of VecNormalize, and cannot be read without unpickling it: {error}. A "
            f"pickle runs code when it is loaded. If you trust its origin, add --trust (or set {VARIABLE}=1)."
        ) from error
    except OSError as error:
        raise FormatError(f"'{path}' cannot be read: {error}") from error


def _from_records(path: Path, made: Any) -> VecNormalizeStatistics:
    fields = fields_of(made, _NORMALIZE)
    if fields.get("norm_obs") is False:
        return VecNormalizeStatistics(path, {}, 0.0, 0.0)
    clip, epsilon = (float(array_of(fields.get(name), 1)) for name in ("clip_obs", "epsilon"))
    found = fields.get("obs_rms")
    if isinstance(found, Made) and found.maker.name == "OrderedDict":
        found = found.entries
    parts = found if isinstance(found, dict) else {None: found}
    keys = fields.get("norm_obs_keys")
    moments = {key: _moments(fields_of(each, _MOMENTS)) for key, each in parts.items() if not keys or key in keys}
    return _checked(VecNormalizeStatistics(path, moments, clip, epsilon))


def _moments(fields: Mapping[str, Any]) -> Moments:
    mean, var = array_of(fields.get("mean"), _MOST), array_of(fields.get("var"), _MOST)
    return Moments(mean, var, float(array_of(fields.get("count"), 1)))


def _unpickled(path: Path) -> VecNormalizeStatistics:
    try:
        with path.open("rb") as file:
            made = pickle.load(file)
        if not made.norm_obs:
            return VecNormalizeStatistics(path, {}, 0.0, 0.0)
        parts = made.obs_rms if isinstance(made.obs_rms, Mapping) else {None: made.obs_rms}
        moments = {
            key: Moments(np.asarray(each.mean), np.asarray(each.var), float(each.count)) for key, each in parts.items()
        }
        return _checked(VecNormalizeStatistics(path, moments, float(made.clip_obs), float(made.epsilon)))
    except Exception as error:  # whatever the classes in the file raise
        raise FormatError(f"'{path}' is not a file of VecNormalize: {type(error).__name__}: {error}") from error


def _checked(found: VecNormalizeStatistics) -> VecNormalizeStatistics:
    for key, (mean, var, count) in found.moments.items():
        where = "" if key is None else f" of '{key}'"
        finite = np.isfinite(mean).all() and np.isfinite(var).all() and 0 <= count < float("inf")
        if mean.shape != var.shape or not (finite and (var >= 0).all()):
            raise FormatError(f"'{found.path}': mean and variance{where} are not the moments of an observation.")
    if not (found.clip > 0 and 0 < found.epsilon < 1):
        raise FormatError(f"'{found.path}': clip_obs {found.clip:g} or epsilon {found.epsilon:g} is out of range.")
    return found


def scaler_of(found: VecNormalizeStatistics, document: Document) -> tuple[Array, Array, Array] | None:
    """Return shift, scale and limit of each number of an observation row; None where rewards alone were normalised."""
    if not found.moments:
        return None
    parts = row_parts(document)
    width = parts[-1].start + parts[-1].size
    shift, scale = np.zeros(width, np.float64), np.ones(width, np.float64)
    limit = np.full(width, _UNLIMITED)
    for part, (key, inner) in zip(parts, part_documents(document), strict=True):
        moments = found.moments.get(key)
        if moments is None:
            continue
        if inner["space"] != "Box" or is_picture(inner) or tuple(inner["shape"]) != moments.mean.shape:
            where = "its observations" if key is None else f"'{key}'"
            raise FormatError(
                f"'{found.path}' has statistics of the shape {moments.mean.shape}, and the policy sees {where} as "
                f"{inner['space']} of shape {tuple(inner.get('shape', ()))}: they do not belong together."
            )
        where_ = slice(part.start, part.start + part.size)
        shift[where_], scale[where_] = moments.mean.ravel(), 1 / np.sqrt(moments.var.ravel() + found.epsilon)
        limit[where_] = found.clip
    _refuse_strangers(found, [key for key, _ in part_documents(document)])
    return shift.astype(np.float32), scale.astype(np.float32), limit.astype(np.float32)


def _refuse_strangers(found: VecNormalizeStatistics, keys: Iterable[str | None]) -> None:
    missing = sorted(str(key) for key in set(found.moments) - set(keys))
    if missing:
        raise FormatError(f"'{found.path}' has statistics of {', '.join(missing)}, which the policy does not see.")
