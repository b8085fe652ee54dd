"""File browser: folders of this machine or of a server, with the files that fit a purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from mosaic.store.folders import SUFFIXES, FilePurpose, FolderRow
from mosaic.ui.tui.backend.files import LocalFiles, last_folder, remember_folder
from mosaic.ui.tui.backend.protocol import FileSource
from mosaic.ui.tui.tabs.base import AppTab, Shell

_TITLES: dict[FilePurpose, str] = {
    "config": "Choose a configuration",
    "game": "Choose a game or an environment's file",
    "checkpoint": "Choose a checkpoint",
    "episode": "Choose a recorded episode",
    "folder": "Choose a folder",
}
_UP, _THIS = "..", "."  # ids of options that are not entries


def browse(tab: AppTab, purpose: FilePurpose, take: Callable[[str], None], files: FileSource | None = None) -> None:
    """Let the user choose a file or folder and call `take` with its path; the folder is remembered."""
    files = files or tab.backend.files
    first = last_folder(files.place, purpose)

    def show(row: FolderRow) -> None:
        tab.app.push_screen(FileBrowser(tab.shell, files, purpose, row), lambda path: take(path) if path else None)

    def read() -> FolderRow:
        row = files.show("", purpose)
        if not first or first == row.path:
            return row
        from mosaic.core.errors import MosaicError

        try:
            return files.show(first, purpose)
        except MosaicError:
            return row  # the remembered folder is gone, or is not shown any more

    tab.shell.prepare(read, show)


class FileBrowser(ModalScreen[str | None]):
    """Dialog that lists a folder; typing narrows the list, Enter opens a folder or takes a file."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("down", "into_list", show=False),
    ]

    def __init__(self, shell: Shell, files: FileSource, purpose: FilePurpose, row: FolderRow) -> None:
        super().__init__()
        self._shell, self._files, self._purpose, self._row = shell, files, purpose, row

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Static(f"{_TITLES[self._purpose]} · {self._files.place}", classes="title", markup=False)
            yield Static("", id="browser-folder", markup=False)
            yield Input(placeholder="type to narrow the list", compact=True)
            yield OptionList(compact=True)
            kinds = " ".join(SUFFIXES[self._purpose])
            yield Static(f"[b]⏎[/b] open   [b]esc[/b] cancel   {kinds}", classes="keys")

    def on_mount(self) -> None:
        self._fill()
        self.query_one(Input).focus()

    def _fill(self) -> None:
        row, words = self._row, self.query_one(Input).value.lower().split()
        options = self.query_one(OptionList)
        options.clear_options()
        found = [Option(Text("../"), id=_UP)] if row.parent is not None and not words else []
        if self._purpose not in ("config", "episode") and row.path and not words:
            found.append(Option(Text("./  take this folder"), id=_THIS))
        for entry in row.entries:
            if all(word in entry.name.lower() for word in words):
                size = "" if entry.folder else f"  {max(1, entry.bytes // 1000):,} kB"
                found.append(Option(Text(f"{entry.name}{'/' if entry.folder else size}"), id=entry.path))
        options.add_options(found)
        options.highlighted = 0 if found else None
        self.query_one("#browser-folder", Static).update(row.path or "Folders that this server shows")

    def on_input_changed(self) -> None:
        self._fill()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            options.action_select()

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        chosen = str(event.option.id)
        entry = next((each for each in self._row.entries if each.path == chosen), None)
        if chosen == _UP:
            self._open(self._row.parent or "")
        elif chosen == _THIS:
            self._take(self._row.path)
        elif entry is not None and entry.folder:
            self._open(entry.path)
        else:
            self._take(chosen)

    def _open(self, folder: str) -> None:
        files, purpose = self._files, self._purpose

        def show(row: FolderRow) -> None:
            self._row = row
            self.query_one(Input).value = ""
            self._fill()

        self._shell.prepare(lambda: files.show(folder, purpose), show)

    def _take(self, path: str) -> None:
        place, purpose = self._files.place, self._purpose
        folder = path if purpose == "folder" else self._row.path
        self._shell.aside(lambda: remember_folder(place, purpose, folder), lambda _: None)
        self.dismiss(path)

    def action_into_list(self) -> None:
        """Go to the entry after the one that Enter takes."""
        self.query_one(OptionList).focus().action_cursor_down()

    def action_leave(self) -> None:
        self.dismiss(None)


def browse_folders(tab: AppTab) -> Callable[[Callable[[str], None]], None]:
    """Return a browser for a folder of this machine, also where the app shows a server's runs."""
    return lambda take: browse(tab, "folder", take, LocalFiles())


def reference_of(purpose: FilePurpose, path: str) -> str:
    """Return how a setting names a file: an environment with its class still to be typed, or a policy."""
    if purpose == "config":
        return path
    if purpose == "game":
        return f"python:{path}:" if path.endswith(".py") else f"godot/{path.removesuffix('/project.godot')}"
    kind = "onnx" if path.endswith(".onnx") else "bundle" if path.endswith(".mosaic") else "checkpoint"
    return f"{kind}:{path}"


def browser_for(tab: AppTab, key: str) -> Callable[[Callable[[str], None]], None] | None:
    """Return a browser for the setting with this key of the Train form; None where the setting names no file."""
    purpose: FilePurpose | None = None
    if key == "env":
        purpose = "game"
    elif key.startswith("agent.") or key.rpartition(".")[2] == "init":
        purpose = "checkpoint"
    if purpose is None:
        return None
    return lambda take: browse(tab, purpose, lambda path: take(reference_of(purpose, path)))
