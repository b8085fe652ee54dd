"""Metrics tab: live charts of one run or several, and the live picture beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, ClassVar

from rich.console import RenderableType
from rich.markup import escape
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Grid, Horizontal
from textual.events import Resize
from textual.widgets import Static

from mosaic.core.errors import InputError
from mosaic.store.state import ENDED
from mosaic.ui.tui.charts.chart import Chart
from mosaic.ui.tui.charts.plot import X_NAMES, Plot
from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.tabs.metrics_view import (
    ComparedRun,
    MetricsView,
    Wanted,
    key_of,
    read_compared,
    read_view,
    settings_table,
)
from mosaic.ui.tui.tabs.runs import STATE_COLOURS, short_name
from mosaic.ui.tui.widgets.dialogs import Choose, Prompt, TextScreen
from mosaic.ui.tui.widgets.filter_bar import FilterBar

if TYPE_CHECKING:
    from mosaic.store.views import RunRow
    from mosaic.ui.cli.pictures import PicturePane

_LIVE_S, _ENDED_S, _PICTURE_S = 0.5, 5.0, 0.25
_WIDE, _HIGH = 120, 34
_LONG_NAME, _SHORT_NAME = 44, 18  # letters of the run's name
_NO_PICTURE = "No picture yet. A run draws one while it trains, if its environment can be rendered."
_FILE = "File (.png, .svg or .csv)"


class MetricsTab(AppTab):
    NAME, DIGIT = "metrics", "3"
    BINDINGS: ClassVar[list[BindingType]] = bindings(OF_TABS["metrics"], footer=False)
    can_focus = True

    def __init__(self) -> None:
        super().__init__()
        self._wanted = Wanted()
        self._view: MetricsView | None = None
        self._single = False
        self._pane: PicturePane | None = None
        self._looking = Lock()  # a picture is not closed while the reader looks at it
        self._charts = self.add_reader(self._read, self._show, every_s=_LIVE_S, key=key_of)
        self._pictures = self.add_reader(self._read_picture, self._show_picture, every_s=_PICTURE_S)
        self.watch_runs()

    def compose(self) -> ComposeResult:
        yield FilterBar("chart or policy")
        yield Static("", id="metrics-head")
        yield Static("", id="metrics-note")
        with Horizontal():
            yield Grid(id="charts")
            yield Static("", id="picture")
        yield Static("", id="differences")
        yield Static(hint(OF_TABS["metrics"]), classes="hint")

    def on_mount(self) -> None:
        for name in ("#picture", "#differences", "#metrics-note"):
            self.query_one(name).display = False
        self._tell()

    def focus_main(self) -> None:
        self.focus()

    def show_runs(self, refs: Sequence[str]) -> None:
        """Show these runs; the first one is the one that keys concern."""
        self._close_picture()
        self._want(replace(self._wanted, refs=tuple(refs), span=None, first=0, seeds=False))
        self._compare()
        self._fit()

    def _compare(self) -> None:
        """Show below the charts in which settings the runs differ; of a single run, nothing."""
        place, refs = self.query_one("#differences", Static), self._wanted.refs
        place.display = len(refs) > 1

        def show(runs: list[ComparedRun]) -> None:
            if self._wanted.refs == refs:
                place.update(settings_table(runs))

        if place.display:
            place.update("")
            self.shell.aside(lambda: read_compared(self.backend, refs), show)

    def config(self) -> None:
        """Show the configuration of the run, or all settings in which the compared runs differ."""
        refs = self._wanted.refs
        if len(refs) < 2:
            super().config()
            return

        def show(runs: list[ComparedRun]) -> None:
            self.app.push_screen(TextScreen("Settings of the compared runs", settings_table(runs)))

        self.shell.prepare(lambda: read_compared(self.backend, refs), show)

    def shown(self) -> None:
        super().shown()
        self._fit()
        if not self._wanted.refs:
            self.shell.aside(self.backend.runs.rows, self._show_newest)

    def _show_newest(self, rows: list[RunRow]) -> None:
        if self._wanted.refs:  # a run was opened meanwhile
            return
        if rows:
            self.show_runs([rows[0].run_id])
        else:
            self.query_one("#metrics-head", Static).update("[dim]There are no runs yet. Start one on the tab Train.[/]")

    def hidden(self) -> None:
        super().hidden()
        self._close_picture()

    # What is shown

    def on_resize(self, event: Resize) -> None:
        self._fit()

    def _fit(self) -> None:
        """Show as many charts as there is room for, with two points per column of each."""
        large = self.size.width >= _WIDE and self.size.height >= _HIGH and not self._single
        columns = self.size.width // 2 if large else self.size.width
        self._want(replace(self._wanted, charts=4 if large else 1, points=max(50, 2 * columns)))

    def _want(self, wanted: Wanted) -> None:
        if wanted != self._wanted:
            self._wanted = wanted
            self._charts.poke()

    def _read(self) -> MetricsView | None:
        return read_view(self.backend, self._wanted, self.shell.clock())

    def _show(self, view: MetricsView | None) -> None:
        if view is None or view.wanted.refs != self._wanted.refs:
            return
        self._view = view
        self._charts.every_s = _LIVE_S if view.details.state in ("running", "starting", "stopping") else _ENDED_S
        self._tell()
        grid = self.query_one("#charts", Grid)
        charts = list(grid.query(Chart))
        for chart, plot in zip(charts, view.plots, strict=False):
            chart.show(plot)
        for chart in charts[len(view.plots) :]:
            chart.remove()
        for plot in view.plots[len(charts) :]:
            grid.mount(Chart(plot))
        grid.set_class(len(view.plots) > 1, "several")

    def _tell(self) -> None:
        head, view = self.query_one("#metrics-head", Static), self._view
        note = self.query_one("#metrics-note", Static)
        if view is None:
            head.update("[dim]Reading …[/]")
            return
        details, wanted = view.details, view.wanted
        colour = STATE_COLOURS.get(details.state, "#7d8794")
        wide = self.size.width >= _WIDE
        name = escape(short_name(details, _LONG_NAME if wide else _SHORT_NAME))
        more = f" and {len(wanted.refs) - 1} more" if len(wanted.refs) > 1 else ""
        none = "no chart matches the filter" if wanted.words else "no metrics yet" if not view.start else ""
        place = f"chart {min(wanted.first + 1, len(view.titles))}/{len(view.titles)} ↑↓" if view.titles else none
        steps = f"{details.env_steps or 0:,} steps"
        means = view.means or (("no seed group",) if wanted.seeds and view.titles else ())
        parts = [f"[b]{name}[/b]{more}", *means, f"[{colour}]{details.state}[/]", steps, *([place] if place else [])]
        parts += [wanted.curves] if wanted.curves != "both" else []
        parts += [f"smoothing {wanted.smoothing:g}", *([f"x: {X_NAMES[wanted.x]}"] if wide else [])]
        head.update(" · ".join(parts))
        told = view.start or (details.reason if details.state in ("failed", "lost") else "")
        note.display = bool(told)
        note.update(f"[{colour}]{escape(told)}[/]")

    # Meanings of keys

    def run_ref(self) -> str | None:
        return self._wanted.refs[0] if self._wanted.refs else None

    def open(self) -> None:
        """Choose another run."""

        def choose(labels: dict[str, str]) -> None:
            def take(label: str | None) -> None:
                if label is not None:
                    self.show_runs([labels[label]])

            self.app.push_screen(Choose("Show the run", list(labels)), take)

        def read() -> dict[str, str]:
            rows = self.backend.runs.rows()
            return {f"{row.run_id}  {row.name}  {row.state}": row.run_id for row in rows}

        self.shell.prepare(read, choose)

    def action_axis(self) -> None:
        self._want(self._wanted.next_axis())

    def action_smooth(self) -> None:
        self._want(self._wanted.next_smoothing())

    def action_step_chart(self, step: int) -> None:
        last = len(self._view.titles) - 1 if self._view is not None else 0
        self._want(replace(self._wanted, first=min(max(0, self._wanted.first + step), max(0, last))))

    def action_curves(self) -> None:
        self._want(self._wanted.next_curves())

    def filtered(self) -> None:
        words = tuple(word for bar in self.query(FilterBar) for word in bar.words)
        self._want(replace(self._wanted, words=words, first=0))

    def action_charts(self) -> None:
        self._single = not self._single
        self._fit()

    def action_band(self) -> None:
        self._want(replace(self._wanted, seeds=not self._wanted.seeds))

    def action_zoom_in(self) -> None:
        self._move(zoom=0.5)

    def action_zoom_out(self) -> None:
        self._move(zoom=2.0)

    def action_pan_left(self) -> None:
        self._move(pan=-0.25)

    def action_pan_right(self) -> None:
        self._move(pan=0.25)

    def action_zoom_reset(self) -> None:
        self._want(replace(self._wanted, span=None))

    def _move(self, zoom: float = 1.0, pan: float = 0.0) -> None:
        lines = [line for plot in self._plots() for line in plot.lines if len(line.x)]
        span = self._wanted.span
        if span is None and lines:
            span = (float(min(line.x[0] for line in lines)), float(max(line.x[-1] for line in lines)))
        if span is not None and span[0] < span[1]:
            self._want(self._wanted.panned(span, pan) if pan else self._wanted.zoomed(span, zoom))

    def _plots(self) -> tuple[Plot, ...]:
        return () if self._view is None else self._view.plots

    def action_export(self) -> None:
        plots = self._plots()
        if not plots:
            self.shell.say("There is no chart to save yet.", "warning")
            return
        plot = plots[0]
        name = "".join(letter if letter.isalnum() else "-" for letter in plot.title.lower())

        def save(said: dict[str, str] | None) -> None:
            if said is not None:
                from mosaic.ui.tui.charts.files import save_chart

                path = Path(said[_FILE]).expanduser().absolute()
                self.shell.aside(lambda: save_chart(plot, path), lambda _: self.shell.say(f"Saved {path}.", "done"))

        self.app.push_screen(Prompt(f"Save the chart {plot.title}", {_FILE: f"{name}.png"}), save)

    # The live picture

    def action_picture(self) -> None:
        if self._pane is not None or self._wanted.refs == ():
            self._close_picture()
            return
        ref = self._wanted.refs[0]

        def look() -> PicturePane:
            from mosaic.telemetry.frames.requests import FrameRequest
            from mosaic.ui.cli.commands.watch import check_drawn
            from mosaic.ui.cli.pictures import PicturePane

            run = self.backend.runs.run(ref)
            details = run.show()
            check_drawn(ref, details)
            if details.state in ENDED:
                raise InputError(f"{details.name or ref} is {details.state}: a run draws pictures while it trains.")
            pane = PicturePane(run.pictures(FrameRequest(1 / _PICTURE_S)))
            pane.waiting = _NO_PICTURE
            return pane

        self.shell.aside(look, self._open_picture)

    def _open_picture(self, pane: PicturePane) -> None:
        self._pane = pane
        self.query_one("#picture").display = True
        self._pictures.again()

    def _close_picture(self) -> None:
        pane, self._pane = self._pane, None
        if pane is not None:
            with self._looking:
                pane.close()
            self.query_one("#picture").display = False

    def _read_picture(self) -> RenderableType | None:
        with self._looking:
            pane = self._pane
            if pane is None:
                return None
            size = self.query_one("#picture").size
            pane.look()
            return pane.render(max(1, size.width), max(1, size.height))

    def _show_picture(self, picture: RenderableType | None) -> None:
        if picture is not None:
            self.query_one("#picture", Static).update(picture)
