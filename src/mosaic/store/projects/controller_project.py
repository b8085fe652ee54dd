"""Conversion of one project of the Godot RL controller, with a report of what became of every setting."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from mosaic.config.layers import merge_settings
from mosaic.config.loading import parse_run_config
from mosaic.config.project import ExportPreset, parse_project
from mosaic.config.validation import explain_settings
from mosaic.core.errors import InputError, MissingExtraError
from mosaic.store.projects.controller_keys import GAME, IN_PARAMS, Left, Target

UNKNOWN = Left("Mosaic does not know it")
_NO_VALUE = Left("it has no value")

CheckParams = Callable[[str, str, dict[str, object]], object]  # of worker, algorithm and params; raises InputError


class ImportedSetting(BaseModel):
    """A setting of the controller, and what became of it."""

    model_config = ConfigDict(frozen=True)

    file: str
    setting: str
    value: Any
    outcome: Literal["taken over", "left out"]
    place: str = ""  # in mosaic.toml
    why: str = ""  # it was left out


class ControllerProject:
    """A project of the controller as it is converted: the mosaic.toml to write, and the report."""

    def __init__(self, folder: Path, check_params: CheckParams) -> None:
        self.folder, self._check_params = folder, check_params
        self.report: list[ImportedSetting] = []
        self._top: dict[str, object] = {}
        self._presets: dict[str, dict[str, object]] = {}
        self._exports: dict[str, dict[str, object]] = {}

    def document(self, name: str | None = None, into: Path | None = None) -> dict[str, object]:
        """Return the content of the mosaic.toml; relative paths are made absolute where it goes to another folder."""
        named = name or self._top.get("name") or self.folder.name
        presets: dict[str, object] = {"train": self._presets} if self._presets else {}
        exports: dict[str, object] = {"export": self._exports} if self._exports else {}
        top = dict(self._top)
        if into is not None:
            top |= {GAME: str(self.folder / str(top[GAME]))} if GAME in top else {}
            for each in self._exports.values():
                each |= {"out": str(self.folder / str(each["out"]))} if "out" in each else {}
        return {"version": 1, **top, "name": named, **presets, **exports}

    def note(self, file: str, setting: str, value: object, place: str | Left) -> None:
        left = isinstance(place, Left)
        self.report.append(
            ImportedSetting(
                file=file,
                setting=setting,
                value=value,
                outcome="left out" if left else "taken over",
                place="" if isinstance(place, Left) else place,
                why=place.why if isinstance(place, Left) else "",
            )
        )

    def set_top(self, file: str, setting: str, value: object, name: str, written: object = None) -> None:
        """Take over a setting of the project itself, as `written` where that is something else than its value."""
        changed = {**self._top, name: value if written is None else written}
        try:
            parse_project({"name": "imported", **changed, "train": self._presets})
        except InputError as error:
            self.note(file, setting, value, Left(str(error)))
            return
        self._top = changed
        self.note(file, setting, value, name)

    def begin_preset(self, name: str, worker: str, algorithm: str) -> None:
        self._presets[name] = {"training": {"worker": worker, "algorithm": algorithm}}

    def has_preset(self, name: str) -> bool:
        return name in self._presets

    def set_in_preset(self, preset: str, file: str, setting: str, value: object, target: Target) -> None:
        """Take over a setting if a run with it would be accepted; otherwise note why not."""
        if value is None or value == "":
            target = _NO_VALUE
        if target == GAME:
            self._set_game(file, setting, str(value))
            return
        if isinstance(target, Left):
            self.note(file, setting, value, target)
            return
        *above, last = target.split(".")
        nested: dict[str, object] = {last: [value] if target == "tags" else value}
        for part in reversed(above):
            nested = {part: nested}
        changed = merge_settings(self._presets[preset], nested)
        try:
            self._check(changed, target)
        except InputError as error:
            self.note(file, setting, value, Left(str(error)))
            return
        self._presets[preset] = changed
        self.note(file, setting, value, f"train.{preset}.{target}")

    def _check(self, preset: Mapping[str, object], target: str) -> None:
        config = parse_run_config(merge_settings({"environment": {"env_id": "godot/debug"}}, preset))
        if target.startswith(IN_PARAMS) or target == "training.algorithm":
            training = config.training
            try:
                self._check_params(training.worker or "", training.algorithm or "", dict(training.params))
            except MissingExtraError:
                return  # the worker is not installed here; it checks its options when it trains

    def _set_game(self, file: str, setting: str, path: str) -> None:
        game = Path(os.path.normpath(self.folder / Path(path).expanduser()))
        inside = game.relative_to(self.folder) if game.is_relative_to(self.folder) else game
        earlier = self._top.get(GAME)
        if earlier not in (None, str(inside)):
            self.note(file, setting, path, Left(f"the project's game is {earlier}"))
        else:
            self.set_top(file, setting, path, GAME, str(inside))

    def set_in_export(self, preset: str, file: str, setting: str, value: object, target: Target) -> None:
        if value is None or value == "":
            target = _NO_VALUE
        if isinstance(target, Left):
            self.note(file, setting, value, target)
            return
        changed = {**self._exports.setdefault(preset, {"target": "godot"}), target: value}
        try:
            ExportPreset.model_validate(changed)
        except ValidationError as error:
            self.note(file, setting, value, Left(explain_settings(error, ExportPreset)))
            return
        self._exports[preset] = changed
        self.note(file, setting, value, f"export.{preset}.{target}")
