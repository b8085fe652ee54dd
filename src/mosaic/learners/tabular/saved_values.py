"""Values of a saved table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from mosaic.learners.tabular.learner import TabularLearner
from mosaic.learners.tabular.save_load import read_table
from mosaic.learners.tabular.training.resumable import FILE as LEARNER
from mosaic.learners.tabular.training.twin import FILE as TABLE
from mosaic.learners.tabular.training.twin import TENSORS


def on_twin(folder: Path) -> bool:
    """Return whether the table's rows are the states of a compiled twin; else they are codes of the env's own space."""
    return (folder / TABLE).exists()


def read_values(folder: Path, policy: str = "") -> NDArray[Any]:
    """Return values [state, action]; `policy` names a player where each has its own table."""
    if on_twin(folder):
        values = read_table(folder / TABLE)[TENSORS.get(policy, "values")]
        return values
    return TabularLearner.load(folder / LEARNER).values
