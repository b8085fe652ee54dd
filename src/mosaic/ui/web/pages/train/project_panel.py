"""Choice of a project and its preset on the train page, which fills the form."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from html import escape
from typing import TypeAlias
from urllib.parse import urlencode

from nicegui import run

from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, MosaicError, unknown
from mosaic.store.projects.registry import ProjectRow
from mosaic.ui.web.components.widgets import box, link_button, panel, raw, select
from mosaic.ui.web.data.facts import Facts

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
