"""When a run saves its policies, and which of these checkpoints stay."""

from __future__ import annotations

from pydantic import Field

from mosaic.config.field_types import Steps
from mosaic.config.section import Section


class CheckpointConfig(Section):
    every_steps: Steps | None = Field(
        None, description="Env steps between checkpoints; None: one a minute, or what 2 % of the time allow."
    )
    keep_last: int = Field(3, ge=1, le=1_000_000, description="How many of the newest checkpoints stay.")
    keep_best: int = Field(1, ge=0, le=1_000_000, description="How many of the best checkpoints stay, however old.")
    at_end: bool = Field(True, description="Save a checkpoint when training ends or is stopped.")
