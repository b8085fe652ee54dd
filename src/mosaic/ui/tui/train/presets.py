"""Presets of projects and configuration files, as drafts for the training form; all of it is called in threads."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mosaic.config.file_formats import parse_document, write_document
from mosaic.config.loading import load_run_config, parse_run_config
from mosaic.core.errors import InputError, unknown
from mosaic.store.atomic import write_once
from mosaic.ui.tui.backend.protocol import AppBackend
from mosaic.ui.web.data.draft import Draft


class PresetName(NamedTuple):
    """Training preset of a project; "" where the project has none but names an env."""

    project: str
    preset: str

    @property
    def label(self) -> str:
        return f"{self.project} · {self.preset}" if self.preset else self.project


def list_presets(backend: AppBackend) -> list[PresetName]:
    rows = [row for row in backend.projects.rows() if row.state == "ok"]
    named = [PresetName(row.name, preset) for row in rows for preset in row.presets]
    return named + [PresetName(row.name, "") for row in rows if row.env and not row.presets]


def read_preset(backend: AppBackend, name: PresetName) -> Draft:
    settings: Mapping[str, Mapping[str, Any]] = backend.projects.details(name.project).settings
    if name.preset not in settings:
        raise unknown(f"training preset of '{name.project}'", name.preset, list(settings))
    if "environment" not in settings[name.preset]:
        raise InputError(f'{name.label} names no environment. Add to the project\'s mosaic.toml: env = "gym/…"')
    return Draft.of(parse_run_config(settings[name.preset]))


def read_file(path: str) -> Draft:
    """Read a configuration, with the messages of the command line."""
    return Draft.of(load_run_config(Path(path).expanduser()))


def read_text(text: str, name: str) -> Draft:
    """Read a configuration from the text of a file, which may be a server's."""
    return Draft.of(parse_run_config(parse_document(text, Path(name))))


def save_settings(backend: AppBackend, draft: Draft, name: str) -> str:
    """Save a draft as a file where the name has an extension, else as a preset of its project; return a message."""
    document = draft.document()
    file = Path(name).expanduser()
    if file.suffix:
        if not write_once(file.absolute(), write_document(document, file.suffix).encode(), 0o644):
            raise InputError(f"'{file}' already exists. Choose another name.")
        return f"The settings are in {file}. Train with them in a shell: mosaic train --config {file}"
    project = str(draft.further.get("project", ""))
    if not project:
        raise InputError(f"These settings belong to no project. Save them as a file: {name}.yaml")
    backend.presets.save(project, name, {key: value for key, value in document.items() if key != "project"})
    return f"The project {project} has the preset {name} now. Train with it in a shell: mosaic train --preset {name}"
