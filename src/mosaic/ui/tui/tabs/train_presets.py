"""Dialogs of the Train tab: the choice of an env, and settings to load and save as presets or files."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.widgets.browser import browse
from mosaic.ui.tui.widgets.dialogs import Choose, Prompt

if TYPE_CHECKING:
    from mosaic.server.schemas import EnvRow
    from mosaic.ui.tui.train.presets import PresetName
    from mosaic.ui.web.data.draft import Draft

OTHER = "other …"
_FILE, _BROWSE = "a file …", "browse files …"
_PRESET = "Preset of the project, or a file (.yaml, .toml or .json)"
_PATH = "File (.yaml, .toml or .json)"


def ask_for_env(tab: AppTab, current: str, take: Callable[[str | None], None]) -> None:
    """Ask for an env and call `take` with its id, or with None where another one is to be typed."""

    def choose(entries: list[EnvRow]) -> None:
        known = {entry.id: entry for entry in sorted(entries, key=lambda entry: (not entry.installed, entry.id))}
        labels = {name if entry.installed else f"{name} (not installed)": name for name, entry in known.items()}

        def chosen(label: str | None) -> None:
            if label == OTHER:
                take(None)
            elif label is not None and label not in labels:
                take(label)
            elif label is not None:
                entry = known[labels[label]]
                if entry.installed:
                    take(entry.id)
                else:
                    tab.shell.say(f"{entry.id} is not installed. Type: {entry.install}", "warning")

        tab.app.push_screen(Choose("Environment", [*labels, OTHER], current, free=True), chosen)

    tab.shell.prepare(tab.backend.catalog.envs, choose)


def ask_for_settings(tab: AppTab, load: Callable[[Draft, str], None]) -> None:
    """Ask for a preset or a file, read it in a thread, and call `load` with its draft and a message."""
    from mosaic.ui.tui.train.presets import list_presets, read_file, read_preset, read_text

    backend = tab.backend

    def read(work: Callable[[], Draft], name: str) -> None:
        tab.shell.aside(work, lambda draft: load(draft, f"The form shows the settings of {name}."))

    def from_file(said: dict[str, str] | None) -> None:
        if said and said[_PATH]:
            read(lambda: read_file(said[_PATH]), said[_PATH])

    def choose(names: list[PresetName]) -> None:
        known = {name.label: name for name in names}

        def chosen(label: str | None) -> None:
            if label == _FILE:
                tab.app.push_screen(Prompt("Load a configuration", {_PATH: ""}), from_file)
            elif label == _BROWSE:
                browse(tab, "config", lambda path: read(lambda: read_text(backend.files.read_config(path), path), path))
            elif label is not None:
                read(lambda: read_preset(backend, known[label]), label)

        tab.app.push_screen(Choose("Load a preset", [*known, _BROWSE, _FILE]), chosen)

    tab.shell.prepare(lambda: list_presets(backend), choose)


def read_settings(tab: AppTab, project: str, preset: str, load: Callable[[Draft, str], None]) -> None:
    """Read a preset of a project in a thread, and call `load` with its draft and a message."""
    from mosaic.ui.tui.train.presets import PresetName, read_preset

    backend, name = tab.backend, PresetName(project, preset)
    tab.shell.aside(
        lambda: read_preset(backend, name), lambda draft: load(draft, f"The form shows the settings of {name.label}.")
    )


def ask_to_save(tab: AppTab, draft: Draft, done: Callable[[], None]) -> None:
    """Ask for a name, save the draft under it in a thread, and call `done` when it is saved."""
    from mosaic.ui.tui.train.presets import save_settings

    backend = tab.backend

    def tell(words: str) -> None:
        done()
        tab.shell.say(words, "done")

    def save(said: dict[str, str] | None) -> None:
        if said and said[_PRESET]:
            tab.shell.aside(lambda: save_settings(backend, draft, said[_PRESET]), tell)

    first = "" if draft.further.get("project") else "run.yaml"
    tab.app.push_screen(Prompt("Save the settings", {_PRESET: first}), save)
