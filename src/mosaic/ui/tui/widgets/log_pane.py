"""Log of a run: its state, why it failed, and its newest lines."""

from __future__ import annotations

from typing import ClassVar

from rich.markup import escape
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Log, Static

from mosaic.ui.tui.tabs.runs import STATE_COLOURS
from mosaic.ui.tui.train.log import MOST_LINES, RunLog


class LogLines(Log):
    """Lines that scroll up and down; left and right change tabs, as everywhere."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.step_tab(-1)", show=False),
        Binding("right", "app.step_tab(1)", show=False),
    ]


class LogPane(Vertical):
    def compose(self) -> ComposeResult:
        yield Static("", id="log-head")
        yield LogLines(max_lines=MOST_LINES, id="log-lines")

    def on_mount(self) -> None:
        self._count = 0

    def clear(self) -> None:
        """Begin with another run."""
        self._count = 0
        self.query_one(LogLines).clear()
        self.query_one("#log-head", Static).update("")

    def show(self, log: RunLog) -> None:
        """Add the lines that are new."""
        details = log.details
        colour = STATE_COLOURS.get(details.state, "#d5dbe3")
        name = escape(f"{details.name} ({details.run_id})" if details.name else details.run_id)
        head = f"[b]{name}[/b] [{colour}]{details.state}[/] · {details.env_steps or 0:,} env steps"
        head += f"\n{escape(log.stage)}" if log.stage else ""
        reason = f"\n[{colour}]{escape(details.reason)}[/]" if details.reason else ""
        self.query_one("#log-head", Static).update(head + reason)
        new = min(log.written - self._count, len(log.lines))
        if new > 0:
            self.query_one(LogLines).write_lines(log.lines[-new:])
        self._count = log.written
