"""What a run tells about itself, how often, and to whom besides its own folder."""

from __future__ import annotations

from pydantic import Field

from mosaic.config.field_types import Reference
from mosaic.config.section import Section


class TelemetryConfig(Section):
    report_every_s: float = Field(
        2.0,
        gt=0.0,
        le=86_400.0,
        description="A run reports at least once in this many seconds, however long its steps.",
    )
    mirrors: tuple[Reference, ...] = Field((), description="Where metrics are copied to: tensorboard, …")
    frames: bool = Field(True, description="Offer live pictures of the env to those who watch.")
