"""How a tabular learner is kept in one file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.learners.tabular.engine import Snapshot
from mosaic.learners.tabular.settings import TabularOptions

if TYPE_CHECKING:
    from mosaic.learners.tabular.learner import TabularLearner

FORMAT = "mosaic-tabular-1"


def save(learner: TabularLearner, snapshot: Snapshot, path: Path) -> None:
    """Whole or not at all: written beside the place, then moved there."""
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
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        save_file(snapshot._asdict(), beside, {"mosaic": json.dumps(facts)})
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def check_table(values: NDArray[Any] | None, path: Path) -> None:
    """Raise for a table that holds NaN: a policy that has it plays nonsense without a word."""
    if values is not None and np.isnan(values).any():
        raise FormatError(f"{path}: {int(np.isnan(values).sum()):,} values of the table are NaN: it plays nonsense.")


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
    facts = json.loads(text)
    if facts.get("format") != FORMAT or arrays.keys() != set(Snapshot._fields):
        raise FormatError(f"{path} is not a table of a TabularLearner ({FORMAT}).")
    learner = TabularLearner(
        facts["states"],
        facts["actions"],
        facts["algorithm"],
        TabularOptions(**facts["options"]),
        facts["seed"],
        start=Snapshot(**arrays),
    )
    learner.episodes = facts["episodes"]
    learner.epsilon = facts["epsilon"]
    return learner
