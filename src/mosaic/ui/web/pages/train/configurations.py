"""Whole configurations that fill the form: of a file, pasted or uploaded, and of a project's presets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from pathlib import Path
from typing import TypeAlias
from urllib.parse import urlencode

import yaml
from nicegui import events, run, ui

from mosaic.config.file_formats import parse_document, write_document
from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.config.yaml import has_aliases
from mosaic.core.errors import FormatError, InputError, MosaicError, unknown
from mosaic.store.projects.registry import ProjectRow
from mosaic.ui.web.components.widgets import Segmented, box, button, enable, link_button, panel, raw, select
from mosaic.ui.web.data.draft import Draft
from mosaic.ui.web.data.facts import Facts

_FORMATS = {".yaml": "YAML", ".toml": "TOML", ".json": "JSON"}
_MOST_BYTES = 256 << 10


def read_config(facts: Facts, text: str, name: str) -> RunConfig:
    """Parse and check a configuration, with the messages of the command line; only what a form may name is allowed."""
    file = Path(name)
    if len(text.encode()) > _MOST_BYTES:
        raise InputError(f"{name}: it has more than {_MOST_BYTES >> 10} KiB, and no configuration is that long.")
    try:
        repeated = file.suffix.lower() in (".yaml", ".yml") and has_aliases(text)
    except (yaml.YAMLError, RecursionError):
        repeated = False  # parse_document says what is wrong
    if repeated:
        raise FormatError(f"{name}: aliases (*NAME) are not allowed here. Write the values out.")
    document = parse_document(text, file)
    config = parse_run_config(document)
    checked = facts.check(config.model_dump(mode="json", exclude_unset=True))
    if checked.config is None:
        raise InputError(checked.error)
    return config


class FilePanel:
    """Text of the configuration, which follows the form until it is edited, and applies to it on request."""

    def __init__(self, facts: Facts, draft: Draft, on_apply: Callable[[RunConfig], Awaitable[None]]) -> None:
        self._facts, self._draft, self._on_apply = facts, draft, on_apply
        self._suffix, self._edited, self._quiet = ".yaml", False, False
        with panel("Configuration file") as end:
            with end:
                self._formats = Segmented(_FORMATS, self._suffix, self._choose_format, "Format of the file")
            self._text = ui.textarea(on_change=self._typed).without_auto_validation()
            # Read-only until the form has written its first text, which would replace what was typed before.
            self._text.props("outlined readonly input-class=mono hide-bottom-space").classes("fill t-json t-file")
            self._text.props["aria-label"] = "Configuration of the run"
            with box("row wrap"):
                self._apply = button("Apply to the form", self._apply_text, kind="small primary")
                button("Upload a file", self._pick, glyph="export", kind="small")
                button("Download", self._download, kind="small")
                self._words = raw("", "small faint", "span").props("role=status")
            self._upload = ui.upload(
                on_upload=self._uploaded, on_rejected=self._too_large, auto_upload=True, max_file_size=_MOST_BYTES
            )
            self._upload.props("accept=.yaml,.yml,.toml,.json").classes("hidden")
        enable(self._apply, False)

    def show(self) -> None:
        """Write the form's current state, unless the text was edited and not applied yet."""
        if not self._edited:
            self._write()

    def _write(self) -> None:
        try:
            text, problem = write_document(self._draft.document(), self._suffix), ""
        except InputError as error:
            text, problem = "", str(error)
        self._set(text, problem)

    def _set(self, text: str, problem: str = "") -> None:
        self._quiet = True
        self._text.set_value(text)
        self._text.props(remove="readonly")
        self._text.error = problem or None
        self._quiet = False

    def _choose_format(self, suffix: str) -> None:
        self._suffix = suffix
        self.show()

    def _typed(self) -> None:
        if not self._quiet:
            self._edited = True
            self._words.set_content("edited, not applied yet")
            enable(self._apply, True)

    async def _apply_text(self) -> None:
        await self._take(self._text.value or "", f"configuration{self._suffix}")

    def _pick(self) -> None:
        self._upload.run_method("pickFiles")

    def _too_large(self) -> None:
        self._text.error = f"The file is not .yaml, .yml, .toml or .json, or has more than {_MOST_BYTES >> 10} KiB."

    async def _uploaded(self, event: events.UploadEventArguments) -> None:
        content = await event.file.read()
        self._upload.reset()
        suffix = Path(event.file.name).suffix.lower().replace(".yml", ".yaml")
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            self._text.error = f"{event.file.name}: it is not UTF-8 text (byte {error.start})."
            return
        if suffix in _FORMATS:
            self._suffix = suffix
            self._formats.choose(suffix)
        self._edited = True
        self._set(text)
        enable(self._apply, True)
        await self._take(text, event.file.name)

    async def _take(self, text: str, name: str) -> None:
        """Apply a text to the form, or show at the text why it cannot be; the form then stays as it is."""
        try:
            config = await run.io_bound(read_config, self._facts, text, name)
        except MosaicError as error:
            self._text.error = str(error)
            self._words.set_content("not applied")
            return
        if config is not None:  # None: the server is shutting down
            await self._on_apply(config)

    def _download(self) -> None:
        """Send what the form says now, not an edited text that was not applied."""
        try:
            text = write_document(self._draft.document(), self._suffix)
        except InputError as error:
            self._text.error = str(error)
            return
        name = self._draft.env.rpartition("/")[2].replace(":", "-")
        ui.download.content(text.encode(), f"{name}{self._suffix}", "text/plain; charset=utf-8")


_NONE = ""  # no project
_OnApply: TypeAlias = Callable[[RunConfig | None, str], Awaitable[None]]  # takes the configuration, and the preset


def project_config(facts: Facts, name: str, preset: str = "") -> RunConfig:
    """Return the configuration of a project's preset, if this server would run it; raise MosaicError otherwise."""
    project = facts.project(name)
    if project.state != "ok":
        raise InputError(project.problem)
    if not preset and len(project.presets) > 1 and project.default_preset is None:
        raise InputError(f"The project '{name}' has several presets and no default: choose one.")
    chosen = preset or project.default_preset or _NONE
    if chosen not in project.settings:
        raise unknown(f"training preset of '{name}'", chosen, project.presets)
    document = project.settings[chosen]
    if "environment" not in document:
        raise InputError(f"The project '{name}' names no environment. Add to its mosaic.toml: env = \"gym/…\"")
    config = parse_run_config(document)
    checked = facts.check(document)
    if checked.config is None:
        raise InputError(checked.error)
    return config


class ProjectPanel:
    """Panel with the known projects; it is left out where there are none."""

    def __init__(self, facts: Facts, chosen: str, preset: str, problem: str, on_apply: _OnApply) -> None:
        self._facts, self._on_apply = facts, on_apply
        self._rows = {row.name: row for row in facts.projects()}
        self._preset = preset
        self._chosen = chosen if chosen in self._rows else _NONE
        if not self._rows:
            return
        with panel("Project", hint="its presets fill the form") as end:
            with end:
                if self._chosen:
                    link_button("Its runs", f"/runs?{urlencode({'project': self._chosen})}", kind="ghost small")
            with box("t-project"):
                names = {_NONE: "No project", **{name: _label(row) for name, row in self._rows.items()}}
                select(names, self._chosen, label="Project", on_change=self._choose_project)
                presets = self._rows[self._chosen].presets if self._chosen else ()
                if presets:
                    known = self._preset if self._preset in presets else self._rows[self._chosen].default_preset
                    select(presets, known, label="Preset", on_change=self._choose_preset)
            self._problem = raw(escape(problem), "t-problem").props("role=status")
            self._problem.set_visibility(bool(problem))

    async def _choose_project(self, name: str) -> None:
        await self._apply(name or _NONE, "")

    async def _choose_preset(self, preset: str) -> None:
        await self._apply(self._chosen, preset)

    async def _apply(self, name: str, preset: str) -> None:
        """Fill the form, or say why it cannot be; it then stays as it is."""
        if not name:
            await self._on_apply(None, _NONE)
            return
        try:
            config = await run.io_bound(project_config, self._facts, name, preset)
        except MosaicError as error:
            self._problem.set_content(escape(str(error)))
            self._problem.set_visibility(True)
            return
        if config is not None:  # None: the server is shutting down
            await self._on_apply(config, preset)


def _label(row: ProjectRow) -> str:
    return row.name if row.state == "ok" else f"{row.name} ({row.state})"
