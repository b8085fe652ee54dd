"""Options of the tabular worker."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from mosaic.config.field_types import BASIC, SHAPES_CHECKPOINTS
from mosaic.learners.tabular.options import TabularOptions


class TabularWorkerOptions(TabularOptions):
    """Options of `training.params`."""

    opponent: Annotated[Literal["self", "random"], BASIC] = Field(
        "self", description="In turn-based games: which policy the other agent has while the table learns."
    )
    tables: Annotated[Literal["one", "two"], SHAPES_CHECKPOINTS] = Field(
        "one", description="In self-play: one table that both agents share, or one for each agent."
    )
    report_every_steps: int | None = Field(
        None, ge=1, description="Agent steps between metric events; None: about fifty events in all."
    )
    bins: Annotated[int | list[int | str] | None, SHAPES_CHECKPOINTS, BASIC] = Field(
        None, description="How Box observations are cut: 8, or one entry per number such as [8, '8@-3..3']."
    )
    merge_every_steps: int = Field(
        1_000_000, ge=1, description="Agent steps of each learner between two merges (runtimes parallel, ray and mpi)."
    )
    table: Annotated[Literal["dense", "hashed"] | None, SHAPES_CHECKPOINTS] = Field(
        None,
        description="A row for every state, or one for each state that is met (hashed); None: dense where it fits.",
    )
    compile_env: bool = Field(
        True,
        description="Compile a small env of one agent to arrays before training, where it has a transition table P or "
        "is deterministic, and where both are proven to be equal. Off: step the env itself, with live pictures.",
    )
    mpi_mode: Literal["allreduce", "server"] = Field(
        "allreduce",
        description="With the runtime mpi: all ranks merge at the same time and runs repeat to the last bit, or rank 0 "
        "keeps the table and no rank waits for the slowest.",
    )
    table_memory_mb: int | None = Field(
        None, ge=1, description="Megabytes that a dense table may need and a hashed one grow to; None: what is free."
    )

    def of_the_table(self) -> TabularOptions:
        """Return the options without those of the worker itself."""
        return TabularOptions.model_validate({name: getattr(self, name) for name in TabularOptions.model_fields})
