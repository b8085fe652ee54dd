"""Train tab: a form of settings generated from the schema, presets, the start, and the live log of what was started."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.widgets import DataTable, Static

from mosaic.core.ids import Json
from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.tabs.base import AppTab, stage_of
from mosaic.ui.tui.tabs.train_presets import OTHER, ask_for_env, ask_for_settings, ask_to_save, read_settings
from mosaic.ui.tui.train.cells import ADVANCED, HEADING, FormTable, form_cells
from mosaic.ui.tui.train.log import LogTail, RunLog
from mosaic.ui.tui.widgets.browser import browser_for
from mosaic.ui.tui.widgets.dialogs import Choose, Confirm, FieldEditor, TextScreen, highlighted
from mosaic.ui.tui.widgets.filter_bar import FilterBar
from mosaic.ui.tui.widgets.log_pane import LogPane

if TYPE_CHECKING:
    from mosaic.ui.tui.backend.protocol import StartedRuns
    from mosaic.ui.tui.train.form import TrainForm
    from mosaic.ui.web.data.draft import Checked, Draft

_WIDE = 110


class TrainTab(AppTab):
    NAME, DIGIT = "train", "2"
    BINDINGS: ClassVar[list[BindingType]] = bindings(OF_TABS["train"], footer=False)

    def __init__(self) -> None:
        super().__init__()
        self._form: TrainForm | None = None
        self._advanced = False
        self._asked: object = None  # the newest check or load: results of earlier ones are dropped
        self._tail: LogTail | None = None
        self._run: str | None = None
        self._visited = False  # the log was opened from another tab
        self._log = self.add_reader(self._read_log, self._show_log, every_s=0.5)
        self.watch_runs()

    def compose(self) -> ComposeResult:
        yield FilterBar("setting or value")
        with Vertical(id="train-form"):
            with Horizontal():
                yield FormTable(("setting", "value"), id="train-table")
                yield Static("", id="train-config")
            yield Static("[dim]Looking at the environment …[/]", id="train-help")
            yield Static("", id="train-check")
        yield LogPane(id="train-log")
        yield Static(hint(OF_TABS["train"]), classes="hint")

    def on_mount(self) -> None:
        self._show_log_pane(False)
        self.query_one("#train-config").display = False
        backend = self.backend

        def load() -> tuple[TrainForm, str]:
            from mosaic.ui.tui.train.form import first_form

            return first_form(backend)

        self.shell.aside(load, self._begin)

    def _begin(self, found: tuple[TrainForm, str]) -> None:
        form, problem = found
        if self._asked is not None:  # a preset was opened meanwhile
            return
        self._show_form(form)
        if problem:
            self.shell.say(problem, "warning")

    def focus_main(self) -> None:
        self.query_one("#log-lines" if self._log_shown else "#train-table").focus()

    # The form

    def _load(self, draft: Draft, *, forget: bool, said: str = "") -> None:
        """Show the form of another draft; an env that cannot be created leaves the form as it is."""
        backend, asked = self.backend, object()
        self._asked = asked

        def load() -> TrainForm:
            from mosaic.ui.tui.train.form import load_form

            return load_form(backend, draft, forget=forget)

        def show(form: TrainForm) -> None:
            if self._asked is asked:
                form.touched = forget
                self._show_form(form)
                self.new()
                if said:
                    self.shell.say(said, "done")

        self.query_one("#train-check", Static).update(f"[dim]Looking at {escape(draft.env)} …[/]")
        self.shell.aside(load, show)

    def _show_form(self, form: TrainForm) -> None:
        self._form = form
        self._changed()

    def _changed(self) -> None:
        """Show the form as it is now, and check it in a thread."""
        self._fill()
        form = self._form
        if form is None:
            return
        document, backend, asked = form.draft.document(), self.backend, object()
        self._asked = asked
        if form.problem:
            self.query_one("#train-check", Static).update(f"[#ef6f6c]{escape(form.problem)}[/]")
            return
        seeds = form.draft.seeds

        def show(checked: Checked) -> None:
            from mosaic.ui.tui.train.form import plan_words

            if self._asked is asked:
                words = escape(plan_words(checked, seeds))
                sign = "[#2dbfab]✓[/]" if checked.config is not None else "[#ef6f6c]✗[/]"
                self.query_one("#train-check", Static).update(f"{sign} {words}")

        self.shell.aside(lambda: backend.runs.check(document), show)

    def _fill(self) -> None:
        if self._form is None:
            return
        width = max(20, (self.size.width - 6) * (3 if self._wide else 5) // 5 - 26)
        searching = any(bar.words for bar in self.query(FilterBar))
        cells = form_cells(self._form.rows(advanced=self._advanced or searching), self.passes, width)
        if not self._advanced and not searching:
            cells[ADVANCED] = (Text("Advanced", "#7d8794"), Text("a shows them", "#7d8794"))
        self.query_one("#train-table", FormTable).fill(cells)
        self._show_help()
        if self._wide:
            self.query_one("#train-config", Static).update(highlighted(self._form.draft.document(), ".yaml"))

    def filtered(self) -> None:
        self._fill()

    @property
    def _wide(self) -> bool:
        return self.size.width >= _WIDE

    def on_resize(self, event: Resize) -> None:
        self.query_one("#train-config").display = self._wide
        self._fill()

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._show_help()

    def _show_help(self) -> None:
        key = self.query_one("#train-table", FormTable).selected
        if self._form is None or key is None:
            return
        text = "" if key.startswith(HEADING) else escape(self._form.row(key).help)
        problem = "" if key.startswith(HEADING) else escape(self._form.row(key).problem)
        self.query_one("#train-help", Static).update(f"[#ef6f6c]{problem}[/]" if problem else f"[dim]{text}[/]")

    # Editing

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        self.open()

    def open(self) -> None:
        """Edit the selected setting; in the log, show the run's curves."""
        key = self.query_one("#train-table", FormTable).selected
        if self._log_shown:
            super().open()
        elif self._form is None or key is None:
            self.shell.say("The form is not ready yet.", "warning")
        elif key == "env":
            self._choose_env()
        elif key == ADVANCED:
            self.action_advanced()
        elif not key.startswith(HEADING):
            self._edit(key)

    def _choose_env(self) -> None:
        def chosen(env: str | None) -> None:
            self._type("env") if env is None else self._take_method("env", env)

        ask_for_env(self, self._form.draft.env if self._form else "", chosen)

    def _edit(self, key: str) -> None:
        assert self._form is not None
        choice = self._form.choice(key)
        if choice is None:
            self._type(key)
            return
        if set(choice.values.values()) == {True, False}:
            self._take(key, not choice.current)
            return
        labels = [*choice.values, *([OTHER] if choice.free else [])]
        current = next((label for label, value in choice.values.items() if value == choice.current), "")

        def chosen(label: str | None) -> None:
            if label == OTHER:
                self._type(key)
            elif label is not None and label != current:
                self._take(key, choice.values[label])

        self.app.push_screen(Choose(self._form.row(key).title, labels, current), chosen)

    def _type(self, key: str) -> None:
        form = self._form
        assert form is not None
        row = form.row(key)

        def typed(text: str | None) -> None:
            if text is not None:
                if key == "env":
                    self._take_method(key, text.strip())
                else:
                    form.take_text(key, text)
                    self._changed()

        check = lambda text: form.problem_of_text(key, text)  # noqa: E731
        editor = FieldEditor(row.title, row.help, form.text(key), check, browse=browser_for(self, key))
        self.app.push_screen(editor, typed)

    def _take(self, key: str, value: Json) -> None:
        assert self._form is not None
        if key in ("worker", "algorithm"):
            self._take_method(key, str(value))
            return
        problem = self._form.take(key, value)
        if problem:
            self.shell.say(problem, "error")
        self._changed()

    def _take_method(self, key: str, value: str) -> None:
        """Load the form of another env, worker or algorithm; what belonged to the last one is dropped."""
        assert self._form is not None
        draft = deepcopy(self._form.draft)
        setattr(draft, key, value)
        if key == "env":
            draft.worker = draft.algorithm = ""
            draft.sections["environment"].clear()
        elif key == "worker":
            draft.algorithm = ""
        self._load(draft, forget=True)

    # Keys of this tab

    def action_advanced(self) -> None:
        self._advanced = not self._advanced
        self._fill()

    def action_reset(self) -> None:
        key = self.query_one("#train-table", FormTable).selected
        if self._form is not None and key is not None and not key.startswith(HEADING):
            self._form.reset(key)
            self._changed()

    def action_start(self) -> None:
        self._start(queue=False)

    def action_queue(self) -> None:
        self._start(queue=True)

    def _start(self, *, queue: bool) -> None:
        form = self._form
        if form is None or form.problem:
            self.shell.say(form.problem if form else "The form is not ready yet.", "warning")
            return
        document, seeds, backend = form.draft.document(), form.draft.seeds, self.backend
        self.shell.say("Starting …" if not queue else "Queueing …")

        def done(started: StartedRuns) -> None:
            form.touched = False
            first, count = started.run_ids[0], len(started.run_ids)
            more = f" and {count - 1} more" if count > 1 else ""
            words = "waits in the queue" if started.queued else "starts"
            self.shell.say(f"{first}{more} {words}.", "done")
            self._follow(first)

        self.shell.aside(lambda: backend.runs.start(document, seeds, queue=queue), done)

    def action_load(self) -> None:
        """Fill the form from a preset of a project, or from a file."""
        self._replace(lambda: ask_for_settings(self, self._load_settings))

    def use_preset(self, project: str, preset: str) -> None:
        """Fill the form from a preset of a project."""
        self._replace(lambda: read_settings(self, project, preset, self._load_settings))

    def _load_settings(self, draft: Draft, said: str) -> None:
        self._load(draft, forget=False, said=said)

    def _replace(self, work: Callable[[], None]) -> None:
        """Do what replaces the form; where that would lose something, after a confirmation."""
        lost = self.unsaved()
        if lost:
            self.app.push_screen(Confirm(f"{lost} Replace them?"), lambda sure: work() if sure else None)
        else:
            work()

    def action_save(self) -> None:
        """Save the form as a preset of its project, or as a file."""
        form = self._form
        if form is not None:
            ask_to_save(self, deepcopy(form.draft), lambda: setattr(form, "touched", False))

    # The log

    @property
    def _log_shown(self) -> bool:
        return self.query_one(LogPane).display

    def _show_log_pane(self, shown: bool) -> None:
        """Show the log or the form; the focus moves first, as keys of this tab need it inside the tab."""
        form, log = self.query_one("#train-form"), self.query_one(LogPane)
        (log if shown else form).display = True
        if self.screen.focused is not None and self in self.screen.focused.ancestors:
            self.screen.set_focus(self.query_one("#log-lines" if shown else "#train-table"))
        (form if shown else log).display = False

    def visit(self, ref: str) -> None:
        """Show the log of a run of another tab; Esc goes back to that tab."""
        self._visited = True
        self._follow(ref)

    def _follow(self, run_id: str) -> None:
        backend = self.backend

        def show(tail: LogTail) -> None:
            self._tail = tail
            self._log.again()

        self._run, self._tail = run_id, None
        self.query_one(LogPane).clear()
        self._show_log_pane(True)
        self.focus_main()
        stage = lambda details: stage_of(backend, details, self.shell.clock())  # noqa: E731
        self.shell.aside(lambda: LogTail(backend.runs.run(run_id), stage), show)

    def _read_log(self) -> RunLog | None:
        tail = self._tail
        return tail.read() if tail is not None and self._log_shown else None

    def _show_log(self, log: RunLog | None) -> None:
        if log is not None and log.details.run_id == self._run:
            self.query_one(LogPane).show(log)

    # Meanings of keys of every tab

    def run_ref(self) -> str | None:
        return self._run

    def open_log(self) -> None:
        if self._run is None:
            self.shell.say("No run was started here yet: t starts one.", "warning")
            return
        self._show_log_pane(not self._log_shown)
        self.focus_main()
        self._log.again()

    def config(self) -> None:
        """Show the whole configuration of the form; in the log, that of the run."""
        if self._log_shown:
            super().config()
        elif self._form is not None:
            self.app.push_screen(TextScreen("Configuration", highlighted(self._form.draft.document(), ".yaml")))

    def filter(self) -> None:
        self.new()
        super().filter()

    def delete(self) -> None:
        self.shell.say("Runs are deleted on the tabs Home and Runs.", "warning")

    def new(self) -> None:
        """Show the form."""
        self._show_log_pane(False)
        self.focus_main()

    def back(self) -> bool:
        if super().back():
            return True
        visited, self._visited = self._visited, False
        if self._log_shown:
            self.new()
            return not visited
        return False

    def unsaved(self) -> str:
        return "The settings on Train were neither started nor saved." if self._form and self._form.touched else ""
