"""Files of tabular learners."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.core.files import replace_file
from mosaic.learners.tabular.engines.base import EngineState
from mosaic.learners.tabular.experience import Values
from mosaic.learners.tabular.options import TabularOptions

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner

FORMAT = "mosaic-tabular-1"
Tensors: TypeAlias = dict[str, NDArray[Any]]  # by name, which determines the type of each
_MARKS = 5  # numbers in `EngineState.marks`
VALUES = ("values", "new_row")  # prefixes of the names of tensors that hold action values


def save(learner: TabularLearner, snapshot: EngineState, path: Path) -> None:
    """Write the file atomically."""
    from safetensors.numpy import save_file

    facts = {
        "format": FORMAT,
        "algorithm": learner.algorithm,
        "options": learner.options.model_dump(),
        "seed": learner.seed,
        "states": learner.states,
        "actions": learner.actions,
        "episodes": learner.episodes,
        "epsilon": learner.epsilon,
    }
    metadata = {"mosaic": json.dumps(facts)}
    replace_file(path, lambda temporary: save_file(snapshot._asdict(), temporary, metadata))


def check_table(values: Values | None, path: Path) -> None:
    """Raise for a table that holds NaN or infinity: a policy that uses it silently plays nonsense."""
    if values is not None and not np.isfinite(values).all():
        count = int(values.size - np.isfinite(values).sum())
        raise FormatError(
            f"{path}: {count:,} of {values.size:,} values of the table are NaN or infinite. Use another checkpoint, or "
            "train again."
        )


def read_table(path: Path) -> Tensors:
    """Return the tensors of a saved table after checking that its values are finite; statistics may be infinite."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        tensors = load_file(path)
    except SafetensorError as error:
        raise FormatError(f"{path} is not a safetensors file: {error}") from error
    for name, array in tensors.items():
        if name.startswith(VALUES):
            check_table(array, path)
    return tensors


def load(path: Path) -> TabularLearner:
    from safetensors import SafetensorError, safe_open

    from mosaic.learners.tabular.learner import TabularLearner

    if not path.is_file():
        raise InputError(f"There is no file {path}.")
    try:
        with safe_open(path, "numpy") as file:
            text = (file.metadata() or {}).get("mosaic", "{}")
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except SafetensorError as error:
        raise FormatError(f"{path} is not a safetensors file: {error}") from error
    check_table(arrays.get("values"), path)
    try:
        facts = json.loads(text)
        if facts["format"] != FORMAT or arrays.keys() != set(EngineState._fields):
            raise FormatError(f"{path} is not a table of a TabularLearner ({FORMAT}).")
        start = EngineState(**arrays)
        _check_shapes(start, facts["states"], facts["actions"], path)
        options = TabularOptions(**facts["options"])
        learner = TabularLearner(
            facts["states"], facts["actions"], facts["algorithm"], options, facts["seed"], start=start
        )
        learner.episodes = facts["episodes"]
        learner.epsilon = facts["epsilon"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FormatError(f"{path} is not a table of a TabularLearner ({FORMAT}): {error!r}.") from error
    return learner


def _check_shapes(start: EngineState, states: int, actions: int, path: Path) -> None:
    """Raise FormatError for arrays of other shapes: compiled engines do not check their bounds."""
    for name, shape in (("values", start.values.shape[1:]), ("visits", start.visits.shape)):
        if shape != (states, actions):
            raise FormatError(f"{path}: {name} is of shape {shape}, not of {states} states and {actions} actions.")
    if start.values.ndim != 3 or start.trail_legal.shape != (actions,) or start.marks.shape != (_MARKS,):
        raise FormatError(f"{path} is not a table of a TabularLearner ({FORMAT}): its arrays have other shapes.")
