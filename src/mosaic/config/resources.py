"""What a run may use: processes, devices, time and memory."""

from __future__ import annotations

from typing import Annotated, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from mosaic.config.field_types import MosaicPicks, Reference
from mosaic.config.section import Section

Runtime = Literal["single", "parallel", "ray", "mpi"]
WorkerCount: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]

USUAL_WORKERS = 2


class ResourcesConfig(Section):
    num_workers: Annotated[WorkerCount | None, MosaicPicks] = Field(
        None, description="Env runners that gather experience side by side; None lets Mosaic pick: 2, or what fits."
    )
    num_gpus: float = Field(0.0, ge=0.0, le=1024.0, description="GPUs for learning; a part of one is possible.")
    num_cpus: int = Field(1, ge=1, le=10_000, description="CPU cores for each env runner.")
    runtime: Annotated[Runtime | None, MosaicPicks] = Field(
        None, description="How training is spread: in one process, over cores, by Ray or by MPI; None lets Mosaic pick."
    )
    ray_address: Reference | None = Field(
        None, description="Ray cluster to join: auto, or HOST:PORT; None starts Ray on this machine."
    )
    max_wall_s: float | None = Field(
        None, gt=0.0, le=1e9, description="Seconds after which the run is stopped; its last state is saved."
    )
    max_memory_mb: int | None = Field(
        None, ge=1, le=10**9, description="Megabytes of memory of all its processes above which the run is stopped."
    )

    @property
    def workers(self) -> int:
        """As many as were asked for, or else as many as fit most machines."""
        return USUAL_WORKERS if self.num_workers is None else self.num_workers

    @model_validator(mode="after")
    def _address_needs_ray(self) -> Self:
        if self.ray_address is not None and self.runtime not in (None, "ray"):
            raise ValueError(
                f"'resources.ray_address' needs the runtime ray, but 'resources.runtime' is '{self.runtime}'. "
                "Leave one of them out"
            )
        return self
