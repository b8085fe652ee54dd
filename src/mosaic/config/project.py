"""Project settings: the content of a folder's mosaic.toml."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator

from mosaic.config.field_types import FreeOptions, Reference
from mosaic.config.layers import merge_settings
from mosaic.config.loading import parse_run_config
from mosaic.config.run import SCHEMA_DIALECT, check_project
from mosaic.config.sections import Section
from mosaic.config.validation import explain_settings
from mosaic.core.errors import FormatError, InputError, UnknownNameError, did_you_mean, shown

PROJECT_VERSION: Final = 1
_PRESET_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_NOT_IN_PRESETS = {
    "version": "the version of the file is that of its presets",
    "run_id": "a preset is used for many runs, and a run_id names one",
    "project": "it is the project's own name",
}
_NO_ENV = "gym/any"  # stands for an env that only the command line names, while a preset is checked


class ExportPreset(Section):
    """Settings of `mosaic export`."""

    target: Literal["onnx", "godot", "torchscript"] = Field("onnx", description="Format to export to.")
    out: Reference = Field("exported", description="Folder or file to write, relative to the project's folder.")
    run: Reference | None = Field(None, description="Run to export: id, name or latest; None: the project's newest.")
    policy: Reference | None = Field(None, description="Policy of the run to export; None exports all of them.")
    checkpoint: Reference | int = Field("latest", description="Checkpoint to export: best, latest or env steps.")
    ir_version: int | None = Field(None, ge=3, le=30, description="Version of ONNX's format; None: the exporter's.")
    opset: int | None = Field(
        None, ge=7, le=30, description="Version of ONNX's operators; None: the exporter's default."
    )

    @field_validator("checkpoint")
    @classmethod
    def _which(cls, value: str | int) -> str | int:
        if isinstance(value, int) and value >= 0:
            return value
        if value in ("best", "latest"):
            return value
        known = did_you_mean(value, ("best", "latest")) if isinstance(value, str) else ""
        raise ValueError(f"it should be best, latest or a number of env steps.{known}".removesuffix("."))


class ProjectConfig(Section):
    """Everything in a mosaic.toml."""

    version: Literal[1] = Field(PROJECT_VERSION, description="Version of this format.")
    name: Annotated[str, AfterValidator(check_project)] = Field(
        min_length=1, max_length=100, description="Name of the project, which its runs carry."
    )
    env: Reference | None = Field(None, description="Environment to train in: gym/CartPole-v1, python:game.py:make, …")
    game: Reference | None = Field(
        None, description="Godot game, relative to the project's folder; trained in where `env` is left out."
    )
    default_preset: str | None = Field(
        None, description="Training preset that is used where none is named; a single preset needs no default."
    )
    train: dict[str, FreeOptions] = Field(
        default_factory=dict, description="Training presets: settings of a run (`mosaic schema run`) by preset name."
    )
    export: dict[str, ExportPreset] = Field(
        default_factory=dict, description="Export presets: settings of `mosaic export` by preset name."
    )

    @property
    def env_id(self) -> str | None:
        """Return the env of the project's runs: `env`, or else the game."""
        return self.env or (f"godot/{self.game}" if self.game else None)

    @model_validator(mode="after")
    def _default_exists(self) -> Self:
        if self.default_preset is not None and self.default_preset not in self.train:
            asked, near = self.default_preset, did_you_mean(self.default_preset, self.train)
            known = f" Known: {', '.join(self.train)}" if self.train else " There are no presets"
            raise ValueError(f"'default_preset' is '{asked}', but there is no [train.{asked}].{near}{known}")
        return self

    def preset_name(self, asked: str | None = None) -> str | None:
        """Return the training preset to use; None for a project without any. Raise InputError where it is unclear."""
        if asked is not None:
            if asked not in self.train:
                raise self._no_preset("train", asked, self.train)
            return asked
        if self.default_preset is not None or not self.train:
            return self.default_preset
        if len(self.train) > 1:
            raise InputError(
                f"The project '{self.name}' has several training presets and no default_preset. "
                f"Name one: --preset {' | '.join(self.train)}"
            )
        return next(iter(self.train))

    def settings(self, preset: str | None) -> dict[str, object]:
        """Return the settings of a run with this preset, as a document; without one, the env alone."""
        below: dict[str, object] = {"environment": {"env_id": self.env_id}} if self.env_id else {}
        return {**merge_settings(below, self.train[preset] if preset else {}), "project": self.name}

    def export_preset(self, asked: str | None = None) -> ExportPreset:
        """Return an export preset by name; without one the only one, or the defaults where there is none."""
        if asked is None and len(self.export) < 2:
            return next(iter(self.export.values()), ExportPreset())
        if asked is None:
            raise InputError(
                f"The project '{self.name}' has several export presets. Name one: --preset {' | '.join(self.export)}"
            )
        if asked not in self.export:
            raise self._no_preset("export", asked, self.export)
        return self.export[asked]

    def _no_preset(self, kind: str, asked: str, known: Collection[str]) -> UnknownNameError:
        listed = f"Known: {', '.join(known)}." if known else f"It has none: add [{kind}.NAME] to its mosaic.toml."
        return UnknownNameError(
            f"The project '{self.name}' has no {kind} preset '{asked}'.{did_you_mean(asked, known)} {listed}"
        )


def parse_project(document: Mapping[str, object]) -> ProjectConfig:
    """Parse the content of a mosaic.toml; every preset is checked against the settings of a run or an export."""
    version = document.get("version", PROJECT_VERSION)
    if version != PROJECT_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > PROJECT_VERSION
        advice = " Install a newer one: pip install --upgrade mosaic-rl" if newer else ""
        raise FormatError(
            f"'version' is {shown(version)}, but this Mosaic reads projects of version {PROJECT_VERSION}.{advice}"
        )
    for heading in ("train", "export"):
        _check_preset_names(heading, document.get(heading, {}))
    exports = document.get("export", {})
    if isinstance(exports, Mapping):
        document = {**document, "export": {name: _export_preset(name, each) for name, each in exports.items()}}
    try:
        project = ProjectConfig.model_validate(dict(document))
    except ValidationError as error:
        raise InputError(explain_settings(error, ProjectConfig)) from error
    for name in project.train:
        _check_train_preset(project, name)
    return project


def _check_preset_names(heading: str, presets: object) -> None:
    if not isinstance(presets, Mapping):
        raise FormatError(f"'{heading}' should hold presets, [{heading}.NAME], not {shown(presets)}.")
    for name, preset in presets.items():
        if not isinstance(preset, Mapping):
            raise FormatError(
                f"'{heading}.{name}' is {shown(preset)}, but presets are groups of settings: [{heading}.NAME]."
            )
        if not _PRESET_NAME.fullmatch(str(name)):
            raise FormatError(
                f"'{name}' cannot name a preset: it should be 1 to 64 letters, digits, '-' and '_', and begin with a "
                "letter or digit."
            )


def _export_preset(name: str, preset: Any) -> ExportPreset:
    try:
        return ExportPreset.model_validate(preset)
    except ValidationError as error:
        raise InputError(_placed(f"export.{name}", explain_settings(error, ExportPreset))) from error


def _check_train_preset(project: ProjectConfig, name: str) -> None:
    for key, why in _NOT_IN_PRESETS.items():
        if key in project.train[name]:
            raise InputError(f"train.{name}: '{key}' cannot be set in a preset: {why}.")
    document = merge_settings({"environment": {"env_id": _NO_ENV}}, project.settings(name))
    try:
        parse_run_config(document)
    except InputError as error:
        raise type(error)(_placed(f"train.{name}", str(error))) from error


def _placed(where: str, text: str) -> str:
    return "\n".join(f"{where}: {line}" for line in text.splitlines())


def project_schema() -> dict[str, object]:
    """Return the JSON schema of a mosaic.toml, for editors and docs."""
    return {
        "$schema": SCHEMA_DIALECT,
        "$id": f"urn:mosaic-rl:project:{PROJECT_VERSION}",
        **ProjectConfig.model_json_schema(),
        "title": "Mosaic project",
    }
