"""How policies are examined while they train."""

from __future__ import annotations

from pydantic import Field

from mosaic.config.field_types import Reference, Steps
from mosaic.config.section import Section


class EvaluationConfig(Section):
    every_steps: Steps | None = Field(
        None, description="Env steps between evaluations; None evaluates only when training has ended."
    )
    episodes: int = Field(10, ge=1, le=1_000_000, description="Episodes of each evaluation.")
    opponents: tuple[Reference, ...] = Field(
        (), description="Policies to play against, one after another: random, minimax, run:latest@best, …"
    )
