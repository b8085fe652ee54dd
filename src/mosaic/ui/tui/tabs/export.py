"""Export tab: a form for an export, its progress, the comparison with its policies, and the history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import Group
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from mosaic.config.export import ExportOptions, parse_export
from mosaic.core.errors import InputError
from mosaic.core.ids import Json
from mosaic.store.state import ENDED
from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.tabs.export_view import (
    CHECKPOINT,
    OPTION,
    POLICY,
    RUN,
    form_rows,
    help_of,
    history_cells,
    report_of,
)
from mosaic.ui.tui.widgets.browser import browse_folders
from mosaic.ui.tui.widgets.dialogs import Choose, Confirm, Prompt, TextScreen
from mosaic.ui.tui.widgets.filter_bar import FilterBar
from mosaic.ui.tui.widgets.tables import KeyedTable
from mosaic.ui.web.data.export_draft import ExportDraft
from mosaic.ui.web.data.schema_fields import SchemaField, as_text, complaints, fields_of, from_text

if TYPE_CHECKING:
    from mosaic.runs.exporting.record import ExportRow
    from mosaic.store.views import LogPart, RunDetails, RunRow

_FOLDER = "Folder"
_EARLIER = 100  # exports that are listed


class ExportTab(AppTab):
    NAME, DIGIT = "export", "5"
    BINDINGS: ClassVar[list[BindingType]] = bindings(OF_TABS["export"], footer=False)

    def __init__(self) -> None:
        super().__init__()
        self._draft = ExportDraft()
        self._fields = fields_of(ExportOptions)
        self._rows: dict[str, ExportRow] = {}
        self.add_reader(lambda: self.backend.exports.rows()[:_EARLIER], self._show_rows, every_s=1.0)
        self.watch_runs()

    def compose(self) -> ComposeResult:
        yield FilterBar("policy, run, state")
        with Horizontal():
            with Vertical(id="export-left"):
                yield Static("What to export", classes="section")
                yield KeyedTable(("setting", "value"), id="export-form")
            with Vertical(id="export-right"):
                yield Static("History", classes="section")
                yield KeyedTable(("state", "started", "what", "run"), id="export-history")
        yield Static("", id="export-help")
        yield Static("[dim]There are no exports yet.[/]", id="export-facts")
        yield Static(hint(OF_TABS["export"]) + "  [b]tab[/b] other list", classes="hint")

    def shown(self) -> None:
        super().shown()
        if self._draft.run:
            self._load(self._draft.run)
        else:
            self.shell.aside(self.backend.runs.rows, self._load_newest)

    def focus_main(self) -> None:
        self._form.focus()

    @property
    def _form(self) -> KeyedTable:
        return self.query_one("#export-form", KeyedTable)

    @property
    def _history(self) -> KeyedTable:
        return self.query_one("#export-history", KeyedTable)

    # What is shown

    def _load_newest(self, rows: list[RunRow]) -> None:
        if rows and not self._draft.run:
            self._load(rows[0].run_id)
        else:
            self._show_form()

    def _load(self, run: str) -> None:
        def show(details: RunDetails) -> None:
            self._draft.load(run, details.checkpoints)
            self._show_form()

        self.shell.aside(lambda: self.backend.runs.run(run).show(), show)

    def _problems(self) -> dict[str, str]:
        return complaints(ExportOptions, self._draft.options)

    def _show_form(self) -> None:
        problems = self._problems()
        rows = form_rows(self._draft, self._fields, problems)
        shown = {key: cells for key, cells in rows.items() if not key.startswith(POLICY) or self.passes(key)}
        self._form.fill(shown)
        self.query_one("#export-help", Static).update(help_of(self._form.selected or "", self._fields, problems))

    def _show_rows(self, rows: list[ExportRow]) -> None:
        self._rows = {row.export_id: row for row in rows}
        self._show_history()

    def _show_history(self) -> None:
        now = self.shell.clock()
        found = {
            key: history_cells(row, now)
            for key, row in self._rows.items()
            if self.passes(key, row.state, row.request.run, row.request.target, *row.request.policies)
        }
        self._history.fill(found)
        self._show_facts()

    def filtered(self) -> None:
        self._show_form()
        self._show_history()

    def _show_facts(self) -> None:
        row = self._selected()
        if row is not None:
            self.query_one("#export-facts", Static).update(report_of(row))

    def _selected(self) -> ExportRow | None:
        return self._rows.get(self._history.selected or "")

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        if event.data_table is self._history:
            self._show_facts()
        else:
            self._show_form()

    # Meanings of keys

    def run_ref(self) -> str | None:
        return self._draft.run or None

    def open(self) -> None:
        """Change the selected setting, or show all about the selected export."""
        if self.app.focused is self._history:
            self._open_export()
            return
        key = self._form.selected or RUN
        if key == RUN:
            self._choose_run()
        elif key == CHECKPOINT:
            self._choose_checkpoint()
        elif key.startswith(POLICY):
            self.action_mark()
        else:
            self._change(next(field for field in self._fields if key == f"{OPTION}{field.name}"))

    def action_mark(self) -> None:
        key = self._form.selected or ""
        if key.startswith(POLICY):
            self._draft.flip(key.removeprefix(POLICY))
            self._show_form()
        else:
            self.shell.say("Select a policy first.", "warning")

    def _choose_run(self) -> None:
        def choose(rows: list[RunRow]) -> None:
            labels = {f"{row.run_id}  {row.name}  {row.state}": row.run_id for row in rows}
            title = "Export the run" if labels else "There are no runs yet"
            self.app.push_screen(
                Choose(title, list(labels)), lambda label: self._load(labels[label]) if label else None
            )

        self.shell.prepare(self.backend.runs.rows, choose)

    def _choose_checkpoint(self) -> None:
        words = {text: key for key, text in self._draft.offers.items()}

        def take(text: str | None) -> None:
            if text is not None:
                self._draft.choose_checkpoint(words[text])
                self._show_form()

        if words:
            chosen = self._draft.offers.get(self._draft.checkpoint, "")
            self.app.push_screen(Choose("Export the checkpoint", list(words), chosen), take)
        else:
            self.shell.say("This run has saved nothing yet.", "warning")

    def _change(self, field: SchemaField) -> None:
        value = as_text(self._draft.options.get(field.name, field.default))
        if field.widget == "choice":
            take = lambda said: None if said is None else self._set(field, said)  # noqa: E731
            self.app.push_screen(Choose(field.title, field.choices, value), take)
            return
        label = field.bounds or field.title

        def typed(said: dict[str, str] | None) -> None:
            if said is not None:
                self._set(field, from_text(field, said[label]))

        self.app.push_screen(Prompt(f"{field.title}: {field.help}", {label: value}), typed)

    def _set(self, field: SchemaField, value: Json) -> None:
        if value == field.default:
            self._draft.options.pop(field.name, None)
        else:
            self._draft.options[field.name] = value
        self._show_form()

    def action_start(self) -> None:
        for name, text in self._problems().items():
            self.shell.say(f"{name}: {text}" if name else text, "error")
            return
        try:
            request = parse_export(self._draft.request())
        except InputError as error:
            self.shell.say(str(error), "warning")
            return
        self.shell.say(f"Exporting {request.run} …")
        self.shell.aside(lambda: self.backend.exports.start(request), self._started)

    def _started(self, row: ExportRow) -> None:
        self.shell.say(f"The export {row.export_id} is started; it continues without the app.", "done")
        self._show_rows([row, *self._rows.values()])
        self._history.move_cursor(row=0, animate=False)
        self.refresh_now()

    def cancel(self) -> bool:
        row = self._selected()
        if row is None or row.state in ENDED:
            self.shell.say("Select an active export first.", "warning")
        else:
            self.shell.say(f"Cancelling {row.export_id} …")
            self.shell.aside(
                lambda: self.backend.exports.cancel(row.export_id),
                lambda ended: self._done(f"The export {ended.export_id} is {ended.state}."),
            )
        return True

    def delete(self) -> None:
        row = self._selected()
        if row is None:
            self.shell.say("There are no exports yet.", "warning")
            return

        def carry_out(sure: bool | None) -> None:
            if sure:
                self.shell.aside(
                    lambda: self.backend.exports.delete(row.export_id),
                    lambda export: self._done(f"The export {export} is deleted."),
                )

        question = f"Delete the export {row.export_id} from the history, with the files in its own folder?"
        self.app.push_screen(Confirm(question), carry_out)

    def action_save_files(self) -> None:
        """Write the files of the selected export to a folder of this machine."""
        row = self._selected()
        if row is None or not row.written:
            self.shell.say("Select an export that has finished first.", "warning")
            return

        def save(said: dict[str, str] | None) -> None:
            if said is not None:
                folder = Path(said[_FOLDER]).expanduser().absolute()
                self.shell.aside(lambda: self._save(row, folder), lambda text: self.shell.say(text, "done"))

        title = f"Write the files of {row.export_id} to"
        self.app.push_screen(Prompt(title, {_FOLDER: "."}, browse=browse_folders(self)), save)

    def _save(self, row: ExportRow, folder: Path) -> str:
        folder.mkdir(parents=True, exist_ok=True)
        taken = [each.name for each in row.written if (folder / each.name).exists()]
        if taken:
            raise InputError(f"'{folder / taken[0]}' exists. Choose another folder.")
        for each in row.written:
            self.backend.exports.download(row.export_id, each.name, folder / each.name)
        number = len(row.written)
        return f"{number} {'file is' if number == 1 else 'files are'} in {folder}."

    def _open_export(self) -> None:
        row = self._selected()
        if row is None:
            self.shell.say("There are no exports yet.", "warning")
            return

        def show(log: LogPart) -> None:
            content = Group(report_of(row, files=True), Text(f"\n{log.text.rstrip()}", "dim"))
            self.app.push_screen(TextScreen(f"Export {row.export_id}", content))

        self.shell.prepare(lambda: self.backend.exports.log(row.export_id), show)

    def _done(self, text: str) -> None:
        self.shell.say(text, "done")
        self.refresh_now()
