"""Home tab: projects, the newest runs, the load of the machine, and what is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from mosaic.ui.health import not_installed
from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.tabs.base import LIVE_STATES, AppTab
from mosaic.ui.tui.tabs.runs import search_texts, short_name, state_text
from mosaic.ui.tui.widgets.dialogs import Choose, Confirm, Prompt, TextScreen, highlighted
from mosaic.ui.tui.widgets.filter_bar import FilterBar
from mosaic.ui.tui.widgets.tables import KeyedTable

if TYPE_CHECKING:
    from mosaic.server.machine_load import MachineLoad
    from mosaic.server.schemas import FindingRow
    from mosaic.store.projects.registry import ProjectDetails, ProjectRow
    from mosaic.store.views import RunRow

_NEWEST = 30
_SHORTEST_NAME, _OTHER_COLUMNS = 12, 28  # letters of a run's name, and what the other columns take
_FOLDER, _NAME, _ENV = "Folder", "Name (empty: that of the folder)", "Environment (may be empty)"
_NEW_NAME = "New name"


class HomeTab(AppTab):
    NAME, DIGIT = "home", "1"
    BINDINGS: ClassVar[list[BindingType]] = bindings(OF_TABS["home"], footer=False)

    def __init__(self) -> None:
        super().__init__()
        self._findings: list[FindingRow] = []
        self._projects: list[ProjectRow] = []
        self._runs: list[RunRow] = []
        self.add_reader(lambda: self.backend.projects.rows(), self._take_projects, every_s=3.0)
        self.add_reader(lambda: self.backend.runs.rows(), self._take_runs, every_s=1.0)
        self.add_reader(lambda: self.backend.machine.load(), self._show_load, every_s=2.0, key=_rounded)

    def compose(self) -> ComposeResult:
        yield FilterBar("project, env, preset, run")
        with Horizontal():
            with Vertical(id="home-left"):
                yield Static("Projects", classes="section")
                yield KeyedTable(("name", "env", "presets"), id="projects")
            with Vertical(id="home-right"):
                yield Static("Newest runs", classes="section")
                yield KeyedTable(("state", "run", "steps", "return"), id="newest")
        yield Static("", id="load")
        yield Static("", id="doctor")
        yield Static(hint(OF_TABS["home"]) + "  [b]u[/b] rename  [b]tab[/b] other list", classes="hint")

    def on_mount(self) -> None:
        self.call_after_refresh(self.shell.aside, lambda: self.backend.machine.doctor(), self._show_doctor)

    def focus_main(self) -> None:
        self.query_one("#newest").focus()

    # What is shown

    def _take_projects(self, rows: list[ProjectRow]) -> None:
        self._projects = rows
        self._show_projects()

    def _take_runs(self, rows: list[RunRow]) -> None:
        self._runs = rows
        self.shell.tell_source(sum(row.state in LIVE_STATES for row in rows))
        self._show_runs()

    def filtered(self) -> None:
        self._show_projects()
        self._show_runs()

    def _show_projects(self) -> None:
        cells = {}
        for row in self._projects:
            if self.passes(row.name, row.env, row.folder, *row.presets):
                name = Text(row.name) if row.state == "ok" else Text(f"{row.name} ({row.state})", "#ef6f6c")
                cells[row.name] = (name, Text(row.env or "—"), Text(", ".join(row.presets) or "—"))
        self.query_one("#projects", KeyedTable).fill(cells)
        few = "" if self._projects else "  [dim not bold]none yet: tab, n[/]"
        self.query_one("#home-left .section", Static).update(f"Projects{few}")

    def _show_runs(self) -> None:
        from mosaic.ui.web.components.theme import count, number

        few = "" if self._runs else "  [dim not bold]none yet: n starts one[/]"
        self.query_one("#home-right .section", Static).update(f"Newest runs{few}")
        longest = max(_SHORTEST_NAME, self.query_one("#newest").size.width - _OTHER_COLUMNS)
        rows = [row for row in self._runs if self.passes(*search_texts(row))][:_NEWEST]
        self.query_one("#newest", KeyedTable).fill(
            {
                row.run_id: (
                    state_text(row.state),
                    Text(short_name(row, longest)),
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
        options = sum(finding.optional for finding in findings)
        broken = [finding.id.removeprefix("extra ") for finding in findings if not finding.ok and not finding.optional]
        words = not_installed(options) if options else "everything is installed"
        warning = f"[#ef6f6c]broken: {escape(', '.join(broken))}[/] · " if broken else ""
        self.query_one("#doctor", Static).update(f"[dim]doctor · {warning}{words} · g shows all[/]")

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
            self.shell.prepare(lambda: self.backend.projects.details(project), self._open_project)

    def _open_project(self, details: ProjectDetails) -> None:
        """Show the training form with the project's preset; where it has several, ask which."""
        if details.state != "ok":
            self._show_project(details)
        elif len(details.presets) < 2:
            self.shell.train_with(details.name, details.presets[0] if details.presets else "")
        else:
            chosen = Choose(f"Train {details.name} with", details.presets, details.default_preset or "")
            self.app.push_screen(
                chosen, lambda preset: self.shell.train_with(details.name, preset) if preset is not None else None
            )

    def config(self) -> None:
        """Show what the selected project's file says, or a run's configuration."""
        project = self._project()
        if project is None:
            super().config()
        else:
            self.shell.prepare(lambda: self.backend.projects.details(project), self._show_project)

    def _show_project(self, details: ProjectDetails) -> None:
        parts: list[RenderableType] = [Text(f"{details.folder}\n", "bold")]
        parts += [Text(f"{details.problem}\n", "#ef6f6c")] if details.problem else []
        parts += [highlighted(details.config, ".toml")] if details.config else []
        self.app.push_screen(TextScreen(f"Project {details.name}", Group(*parts)))

    def new(self) -> None:
        """Set up a run; in the list of projects, create one, or open the one that a folder has."""
        if self.app.focused is not self.query_one("#projects"):
            super().new()
            return

        def create(said: dict[str, str] | None) -> None:
            if said is not None:
                self.shell.aside(
                    lambda: self.backend.projects.create(said[_FOLDER], said[_NAME], said[_ENV]),
                    lambda name: self._done(f"The project {name} is ready."),
                )

        fields, hints = {_FOLDER: "", _NAME: "", _ENV: ""}, {_ENV: "classic/tictactoe_v3"}
        if self.backend.place != "this machine":
            hints[_FOLDER] = "empty: in the server's own folder, under its name"
        self.app.push_screen(Prompt("New project", fields, hints, browse=self._browse), create)

    def _browse(self, take: Callable[[str], None]) -> None:
        from mosaic.ui.tui.widgets.browser import browse  # the first screen does without

        browse(self, "folder", take)

    def delete(self) -> None:
        project = self._project()
        if project is None:
            self.delete_run(self.run_ref())
            return

        def carry_out(sure: bool | None) -> None:
            if sure:
                self.shell.aside(
                    lambda: self.backend.projects.forget(project),
                    lambda _: self._done(f"{project} is removed from the list."),
                )

        question = f"Remove the project {project} from the list? Its folder and its runs stay."
        self.app.push_screen(Confirm(question), carry_out)

    def rename(self) -> bool:
        project = self._project()
        if project is None:
            return False

        def rename(said: dict[str, str] | None) -> None:
            if said is not None and said[_NEW_NAME] != project:
                self.shell.aside(
                    lambda: self.backend.projects.rename(project, said[_NEW_NAME]),
                    lambda _: self._done(f"{project} is named {said[_NEW_NAME]} now."),
                )

        self.app.push_screen(Prompt(f"Rename the project {project}", {_NEW_NAME: project}), rename)
        return True

    def action_doctor(self) -> None:
        table = Table.grid(padding=(0, 2))
        for finding in sorted(self._findings, key=lambda finding: (finding.ok, finding.optional)):
            sign = (
                Text("✓", "#2dbfab") if finding.ok else Text("·", "dim") if finding.optional else Text("✗", "#ef6f6c")
            )
            detail = f"not installed: {finding.detail}" if finding.optional else finding.detail
            table.add_row(sign, finding.id, Text(f"{detail}\n{finding.install or ''}".rstrip()))
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
