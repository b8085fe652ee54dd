"""Settings of exports: when, which policies, how files are written, and how they are compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, ValidationError, field_validator, model_validator

from mosaic.config.field_types import AnyCase, Reference
from mosaic.config.sections import Section
from mosaic.config.validation import explain_settings
from mosaic.core.errors import InputError, did_you_mean

ExportTarget = Literal["onnx", "godot", "torchscript"]
LEAST_OBSERVATIONS = 1000
TOLERANCE = 1e-4


class ExportOptions(Section):
    """Options for writing exported files and comparing them with their policies."""

    target: Annotated[ExportTarget, AnyCase] = Field(
        "onnx",
        description="Format: onnx; godot: ONNX as Godot RL Agents' plug-in runs it; torchscript: for torch.jit.load.",
    )
    opset: int | None = Field(None, ge=1, le=1000, description="Version of ONNX's operators; None: 17.")
    ir_version: int | None = Field(
        None, ge=1, le=1000, description="Version of ONNX's file format; None: 8, or what the opset needs."
    )
    tolerance: float = Field(
        TOLERANCE, gt=0.0, le=1.0, description="Maximum allowed difference of outputs and actions."
    )
    observations: int = Field(
        LEAST_OBSERVATIONS,
        ge=LEAST_OBSERVATIONS,
        le=1_000_000,
        description="Number of observations to compare: half recorded in the env, half random.",
    )

    @model_validator(mode="after")
    def _versions_of_onnx(self) -> Self:
        if self.target == "torchscript" and (self.opset is not None or self.ir_version is not None):
            raise ValueError("'opset' and 'ir_version' belong to ONNX: leave them out with the target torchscript")
        return self


class ExportConfig(ExportOptions):
    """Exports of a run while it trains: into `exports` of its folder, each file compared with its policy."""

    at_end: bool = Field(False, description="Export all policies when training ends, from the last checkpoint.")
    on_best: bool = Field(False, description="Export all policies whenever a checkpoint is the best so far.")

    @property
    def wanted(self) -> bool:
        return self.at_end or self.on_best

    @model_validator(mode="after")
    def _options_need_an_export(self) -> Self:
        given = [name for name in ExportOptions.model_fields if getattr(self, name) != _default(name)]
        if given and not self.wanted:
            raise ValueError(
                f"'{given[0]}' has no effect without an export: set export.at_end or export.on_best, or leave it out"
            )
        return self


def _default(name: str) -> object:
    return ExportOptions.model_fields[name].default


class ExportRequest(ExportOptions):
    """One export: policies of a checkpoint, and where their files go."""

    run: Reference = Field(
        description="Run to export: its id, a unique prefix, its name, or latest; or checkpoint:PATH."
    )
    environment: Reference | None = Field(
        None, description="Env of a checkpoint:PATH that another program wrote; None: named by the checkpoint."
    )
    checkpoint: Reference | int = Field("latest", description="Checkpoint: latest, best, or a number of env steps.")
    policies: tuple[Reference, ...] = Field((), max_length=1000, description="Policies to export; none: all.")
    out: Reference | None = Field(
        None, description="File or folder to write; None: the export's own folder, from which files are downloaded."
    )
    overwrite: bool = Field(False, description="Replace files that exist.")

    @field_validator("checkpoint")
    @classmethod
    def _which(cls, value: str | int) -> str | int:
        text = str(value)
        if text in ("best", "latest"):
            return text
        if text.isdecimal():
            return int(text)
        near = did_you_mean(text, ("best", "latest"))
        raise ValueError(f"it should be best, latest or a number of env steps.{near}".removesuffix("."))


def parse_export(document: Mapping[str, object]) -> ExportRequest:
    """Return the request; raise InputError with the nearest known setting or value."""
    try:
        return ExportRequest.model_validate(dict(document))
    except ValidationError as error:
        raise InputError(explain_settings(error, ExportRequest)) from error
