"""Runs tab: a table of all runs with a filter, marks for a comparison, and why a run failed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from rich.markup import escape
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.events import Resize
from textual.widgets import DataTable, Static

from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.tabs.base import LIVE_STATES, AppTab, stage_of
from mosaic.ui.tui.widgets.filter_bar import FilterBar
from mosaic.ui.tui.widgets.tables import KeyedTable

if TYPE_CHECKING:
    from mosaic.store.views import RunDetails, RunRow

MOST_ROWS = 500
_LAST_LINES = 4
_WIDE = 110
STATE_COLOURS = {
    "running": "#2dbfab",
    "starting": "#79aef5",
    "queued": "#79aef5",
    "paused": "#d9cf6a",
    "stopping": "#d9cf6a",
    "failed": "#ef6f6c",
    "lost": "#ef6f6c",
}
_COLUMNS = ("", "state", "name", "env", "method", "steps", "return", "started")
_NAME = 2  # place of the name
_SHORTEST_NAME, _LONGEST_NAME = 10, 44
_PADDING = 2  # of a column


class _Facts(NamedTuple):
    """Contents of the pane below the table: facts about the selected run."""

    details: RunDetails
    stage: str
    last_lines: tuple[str, ...]


class RunsTab(AppTab):
    NAME, DIGIT = "runs", "6"
    BINDINGS: ClassVar[list[BindingType]] = bindings(OF_TABS["runs"], footer=False)

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[RunRow] = []
        self._marked: dict[str, None] = {}
        self._selected: str | None = None
        self.add_reader(self._read_rows, self._show_rows, every_s=1.0)
        self._facts = self.add_reader(self._read_facts, self._show_facts, every_s=2.0)

    def compose(self) -> ComposeResult:
        yield FilterBar("name, env, method, state, tag, project")
        yield KeyedTable(_COLUMNS, id="runs-table")
        yield Static("", id="runs-facts")
        yield Static(hint(OF_TABS["runs"]) + "  [b]u[/b] rename  [b]r[/b] resume  [b]d[/b] delete", classes="hint")

    def focus_main(self) -> None:
        self.query_one(KeyedTable).focus()

    def on_resize(self, event: Resize) -> None:
        if self._rows:
            self._fill()

    # What is shown

    def _read_rows(self) -> list[RunRow]:
        return self.backend.runs.rows(hidden=True)

    def _show_rows(self, rows: list[RunRow]) -> None:
        self._rows = rows
        self.shell.tell_source(sum(row.state in LIVE_STATES for row in rows))
        known = {row.run_id for row in rows}
        self._marked = {ref: None for ref in self._marked if ref in known}
        self._fill()

    def _fill(self) -> None:
        words = {word for bar in self.query(FilterBar) for word in bar.words}
        rows = [row for row in self._rows if not row.hidden or "hidden" in words]
        found = [row for row in rows if self.passes(*search_texts(row))]
        table = self.query_one(KeyedTable)
        now, wide = self.shell.clock(), self.size.width >= _WIDE
        cells = {row.run_id: _cells(row, row.run_id in self._marked, now, wide) for row in found[:MOST_ROWS]}
        longest = self.size.width - _taken(list(cells.values()))
        longest = min(_LONGEST_NAME, max(_SHORTEST_NAME, longest))
        names = {row.run_id: Text(short_name(row, longest)) for row in found[:MOST_ROWS]}
        table.fill({ref: (*each[:_NAME], names[ref], *each[_NAME:]) for ref, each in cells.items()})
        if not found:
            text = "No run matches the filter." if self._rows else "There are no runs yet. n starts one."
            self.query_one("#runs-facts", Static).update(f"[dim]{text}[/]")
        table.border_subtitle = f"the newest {MOST_ROWS} of {len(found)}; press / to filter"
        table.set_class(len(found) > MOST_ROWS, "cut")
        self._select(table.selected)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._select(event.row_key.value if event.row_key is not None else None)

    def _select(self, run_id: str | None) -> None:
        if run_id != self._selected:
            self._selected = run_id
            self._facts.again()

    def _read_facts(self) -> _Facts | None:
        run_id = self._selected
        if run_id is None:
            return None
        run = self.backend.runs.run(run_id)
        details = run.show()
        lines: tuple[str, ...] = ()
        if details.state in ("failed", "lost"):
            written = run.log(size=4096, stream="stderr").text or run.log(size=4096).text
            lines = tuple(written.rstrip().splitlines()[-_LAST_LINES:])
        return _Facts(details, stage_of(self.backend, details, self.shell.clock()), lines)

    def _show_facts(self, facts: _Facts | None) -> None:
        if facts is None or facts.details.run_id != self._selected:
            return
        details = facts.details
        colour = STATE_COLOURS.get(details.state, "")
        state = f"[{colour}]{details.state}[/]" if colour else details.state
        first = f"[b]{escape(details.run_id)}[/b] {state}"
        count = len(details.checkpoints)
        saved = f"{count or 'no'} checkpoint{'' if count == 1 else 's'}"
        lines = [f"{first} · {saved} · attempt {len(details.attempts)}"]
        if facts.stage:
            lines.append(escape(facts.stage))
        if details.reason:
            lines.append(escape(details.reason))
        if details.tags or details.note:
            lines.append(escape(" ".join([*(f"#{tag}" for tag in details.tags), details.note])))
        lines += [f"[dim]{escape(line)}[/]" for line in facts.last_lines]
        self.query_one("#runs-facts", Static).update("\n".join(lines))

    # Meanings of keys

    def run_ref(self) -> str | None:
        return self._selected

    def filtered(self) -> None:
        self._fill()

    def action_mark(self) -> None:
        from mosaic.ui.tui.charts.plot import MOST_RUNS  # numpy, which the first screen does without

        run_id = self._selected
        if run_id is None:
            return
        if run_id in self._marked:
            del self._marked[run_id]
        elif len(self._marked) == MOST_RUNS:
            self.shell.say(f"At most {MOST_RUNS} runs can be distinguished in one chart.", "warning")
        else:
            self._marked[run_id] = None
        self._fill()

    def action_hide(self) -> None:
        """Hide the run from lists, or show it again; the filter `hidden` shows hidden runs."""
        row = next((row for row in self._rows if row.run_id == self._selected), None)
        if row is None:
            self.shell.say("No run is selected.", "warning")
            return

        def change() -> None:
            from mosaic.store.labels import LabelChange

            self.backend.runs.run(row.run_id).label(LabelChange(hidden=not row.hidden))

        def done(_: None) -> None:
            words = "is listed again" if row.hidden else "is hidden; the filter hidden shows it"
            self.shell.say(f"{row.name or row.run_id} {words}.", "done")
            self.refresh_now()

        self.shell.aside(change, done)

    def action_compare(self) -> None:
        if len(self._marked) < 2:
            self.shell.say("Mark two or more runs with the space bar first.", "warning")
        else:
            self.shell.show_runs(list(self._marked))


def search_texts(row: RunRow) -> tuple[str | None, ...]:
    """Return what a filter looks at."""
    about = (row.run_id, row.name, row.env, row.worker, row.algorithm, row.state, row.group, row.project, row.note)
    return *about, *row.tags, "hidden" if row.hidden else None


def short_name(row: RunRow | RunDetails, longest: int) -> str:
    """Return a run's name in at most this many letters; of an id, the end, which tells it from others."""
    name = row.name or row.run_id
    if len(name) <= longest:
        return name
    return f"{name[: longest - 1]}…" if row.name else f"…{name[1 - longest :]}"


def state_text(state: str) -> Text:
    return Text(state, STATE_COLOURS.get(state, ""))


def _taken(rows: Sequence[tuple[Text, ...]]) -> int:
    """Return the width of all columns but the name's letters."""
    heads = [*_COLUMNS[:_NAME], *_COLUMNS[_NAME + 1 :]]
    widths = [max([len(head), *(row[place].cell_len for row in rows)]) for place, head in enumerate(heads)]
    return sum(widths) + _PADDING * len(_COLUMNS) + 1  # the scrollbar


def _cells(row: RunRow, marked: bool, now: float, wide: bool) -> tuple[Text, ...]:
    """Return the cells of a run without that of its name."""
    from mosaic.ui.web.components.theme import ago, count, env_title, number

    method = " ".join(filter(None, (row.worker, row.algorithm))) or "—"
    return (
        Text("◆" if marked else " ", "#f0a35e"),
        state_text(row.state),
        Text((row.env if wide else env_title(row.env))[: 34 if wide else 13]),
        Text(method[: 24 if wide else 12]),
        Text(count(row.env_steps), justify="right"),
        Text(number(row.episode_reward_mean), justify="right"),
        Text(ago(row.started, now).removesuffix("" if wide else " ago")),
    )
