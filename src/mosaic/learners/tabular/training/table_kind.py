"""Choice between a dense table and a hashed one, which only has rows for states that were met."""

from __future__ import annotations

from typing import Literal, TypeAlias

from mosaic.core.errors import InputError
from mosaic.core.memory import free_memory
from mosaic.envs.codes import MOST_STATES, SpaceCode
from mosaic.envs.codes.space_code import count_text
from mosaic.learners.tabular.engines.base import table_bytes
from mosaic.learners.tabular.options import TabularOptions

Storage: TypeAlias = Literal["dense", "hashed"]


def choose_storage(
    asked: Storage | None,
    states: SpaceCode,
    actions: SpaceCode,
    algorithm: str,
    options: TabularOptions,
    *,
    tables: int = 1,
    memory_limit: int | None = None,
) -> Storage:
    """Return "dense" where all rows fit: nothing is faster; `memory_limit` in bytes (None: what is free now)."""
    if asked == "hashed":
        return "hashed"
    layers = tables * (2 if algorithm == "double_q_learning" else 1)
    needed = table_bytes(states.size, actions.size, layers, options)
    free = free_memory() if memory_limit is None else memory_limit
    if states.size <= MOST_STATES and needed <= free:
        return "dense"
    if asked is None:
        return "hashed"
    raise InputError(
        f"A dense table of {count_text(states.size)} states × {actions.size:,} actions needs {count_text(needed)} "
        f"bytes; {free:,} {'are free here' if memory_limit is None else 'are allowed'}. Keep only the visited "
        "states: --set training.params.table=hashed. Or use fewer bins, or a worker that learns a function "
        "instead of a "
        "table: --worker native"
    )
