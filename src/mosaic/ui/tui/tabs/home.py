"""Home tab: projects, the newest runs, the load of the machine, and what is installed."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.tabs.base import LIVE_STATES, AppTab
from mosaic.ui.tui.tabs.runs import state_text
from mosaic.ui.tui.widgets.dialogs import Confirm, Prompt, TextScreen
from mosaic.ui.tui.widgets.tables import KeyedTable

if TYPE_CHECKING:
    from mosaic.server.machine_load import MachineLoad
    from mosaic.server.schemas import FindingRow
    from mosaic.store.projects.registry import ProjectRow
    from mosaic.store.views import RunRow

_NEWEST = 30
_FOLDER, _NAME, _ENV = "Folder", "Name (empty: that of the folder)", "Environment (may be empty)"
_NEW_NAME = "New name"


class HomeTab(AppTab):
    NAME, DIGIT = "home", "1"
    BINDINGS: ClassVar[list[BindingType]] = bindings(OF_TABS["home"], footer=False)

    def __init__(self) -> None:
        super().__init__()
        self._findings: list[FindingRow] = []
        self.add_reader(lambda: self.backend.projects.rows(), self._show_projects, every_s=3.0)
        self.add_reader(self._read_runs, self._show_runs, every_s=1.0)
        self.add_reader(lambda: self.backend.machine.load(), self._show_load, every_s=2.0, key=_rounded)

    def compose(self) -> ComposeResult:
        with Horizontal():
            with Vertical(id="home-left"):
                yield Static("Projects", classes="section")
                yield KeyedTable(("name", "env", "presets"), id="projects")
            with Vertical(id="home-right"):
                yield Static("Newest runs", classes="section")
                yield KeyedTable(("state", "run", "steps", "return"), id="newest")
        yield Static("", id="load")
        yield Static("", id="doctor")
        yield Static(hint(OF_TABS["home"]) + "  [b]tab[/b] other list", classes="hint")

    def on_mount(self) -> None:
        self.shell.aside(lambda: self.backend.machine.doctor(), self._show_doctor)

    def focus_main(self) -> None:
        self.query_one("#newest").focus()

    # What is shown

    def _show_projects(self, rows: list[ProjectRow]) -> None:
        cells = {}
        for row in rows:
            name = Text(row.name) if row.state == "ok" else Text(f"{row.name} ({row.state})", "#ef6f6c")
            cells[row.name] = (name, Text(row.env or "—"), Text(", ".join(row.presets) or "—"))
        self.query_one("#projects", KeyedTable).fill(cells)

    def _read_runs(self) -> tuple[int, list[RunRow]]:
        """Return how many of all runs are live, and the newest."""
        rows = self.backend.runs.rows()
        return sum(row.state in LIVE_STATES for row in rows), rows[:_NEWEST]

    def _show_runs(self, found: tuple[int, list[RunRow]]) -> None:
        from mosaic.ui.web.components.theme import count, number

        live, rows = found
        self.shell.tell_source(live)
        self.query_one("#newest", KeyedTable).fill(
            {
                row.run_id: (
                    state_text(row.state),
                    Text((row.name or row.run_id)[:24]),
                    Text(count(row.env_steps), justify="right"),
                    Text(number(row.episode_reward_mean), justify="right"),
                )
                for row in rows
            }
        )

    def _show_load(self, load: MachineLoad) -> None:
        parts = [f"CPU {_bar(load.cpu)} {load.cpu:3.0f} %"]
        share = 100 * load.used_gb / load.memory_gb
        parts.append(f"memory {_bar(share)} {load.used_gb:.1f} of {load.memory_gb:.1f} GB")
        for gpu in load.gpus:
            parts.append(f"{escape(gpu.name)} {_bar(gpu.busy)} {gpu.used_gb:.1f} of {gpu.memory_gb:.1f} GB")
        self.query_one("#load", Static).update("   ".join(parts) + ("" if load.gpus else "   [dim]no GPU[/]"))

    def _show_doctor(self, findings: list[FindingRow]) -> None:
        self._findings = findings
        missing = [finding.id.removeprefix("extra ") for finding in findings if not finding.ok]
        words = f"not installed: {', '.join(missing)}" if missing else "everything is installed"
        self.query_one("#doctor", Static).update(f"[dim]doctor · {escape(words)} · g shows all[/]")

    # Meanings of keys

    def _project(self) -> str | None:
        table = self.query_one("#projects", KeyedTable)
        return table.selected if self.app.focused is table else None

    def run_ref(self) -> str | None:
        table = self.query_one("#newest", KeyedTable)
        return table.selected if self.app.focused is table else None

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.open()

    def open(self) -> None:
        project = self._project()
        if project is None:
            super().open()
        else:
            self.shell.aside(lambda: self.backend.projects.details(project), self._show_project)

    def _show_project(self, details: ProjectRow) -> None:
        lines = [f"folder   {details.folder}", f"env      {details.env or '—'}"]
        lines += [
            f"presets  {', '.join(details.presets) or '—'}",
            f"exports  {', '.join(details.export_presets) or '—'}",
        ]
        lines += [details.problem] if details.problem else []
        self.app.push_screen(TextScreen(f"Project {details.name}", Text("\n".join(lines))))

    def new(self) -> None:
        """Set up a run; in the list of projects, create one, or open the one that a folder has."""
        if self.app.focused is not self.query_one("#projects"):
            super().new()
            return

        def create(said: dict[str, str] | None) -> None:
            if said is not None:
                folder = said[_FOLDER]
                if not folder:
                    self.shell.say("A project needs a folder.", "warning")
                    return
                self.shell.aside(
                    lambda: self.backend.projects.create(folder, said[_NAME], said[_ENV]),
                    lambda name: self._done(f"The project {name} is ready."),
                )

        self.app.push_screen(
            Prompt("New project", {_FOLDER: "", _NAME: "", _ENV: ""}, {_ENV: "classic/tictactoe_v3"}), create
        )

    def delete(self) -> None:
        project = self._project()
        if project is None:
            self.shell.say("Select a project first; runs are deleted on the tab Runs.", "warning")
            return

        def carry_out(sure: bool | None) -> None:
            if sure:
                self.shell.aside(
                    lambda: self.backend.projects.forget(project),
                    lambda _: self._done(f"{project} is removed from the list."),
                )

        question = f"Remove the project {project} from the list? Its folder and its runs stay."
        self.app.push_screen(Confirm(question), carry_out)

    def action_rename(self) -> None:
        project = self._project()
        if project is None:
            self.shell.say("Select a project first.", "warning")
            return

        def rename(said: dict[str, str] | None) -> None:
            if said is not None and said[_NEW_NAME] != project:
                self.shell.aside(
                    lambda: self.backend.projects.rename(project, said[_NEW_NAME]),
                    lambda _: self._done(f"{project} is named {said[_NEW_NAME]} now."),
                )

        self.app.push_screen(Prompt(f"Rename the project {project}", {_NEW_NAME: project}), rename)

    def action_doctor(self) -> None:
        table = Table.grid(padding=(0, 2))
        for finding in self._findings:
            sign = Text("✓", "#2dbfab") if finding.ok else Text("✗", "#ef6f6c")
            table.add_row(sign, finding.id, Text(f"{finding.detail}\n{finding.install or ''}".rstrip()))
        self.app.push_screen(TextScreen("Doctor", table))

    def _done(self, text: str) -> None:
        self.shell.say(text, "done")
        self.refresh_now()


def _bar(percent: float, width: int = 10) -> str:
    full = min(width, max(0, round(percent / 100 * width)))
    colour = "#ef6f6c" if percent > 90 else "#2dbfab"
    return f"[{colour}]{'█' * full}[/][#4a5563]{'░' * (width - full)}[/]"


def _rounded(load: MachineLoad) -> object:
    """Return the load as it is shown: smaller changes are not worth a redraw."""
    gpus = tuple((round(gpu.busy, -1), round(gpu.used_gb, 1)) for gpu in load.gpus)
    return round(load.cpu / 3), round(load.used_gb, 1), gpus
