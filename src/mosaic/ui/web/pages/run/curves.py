"""Live curves of a run, alone or with others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from html import escape

from nicegui import ui

from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.event import leaves
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.live import (
    FEW_CURVES,
    ChartLine,
    LiveFeed,
    chart,
    chart_height,
    way_back,
)
from mosaic.ui.web.components.theme import series_key
from mosaic.ui.web.components.widgets import Segmented, box, button, empty, panel, raw, select, toggle
from mosaic.ui.web.data.chart_groups import Family, families, policies_of
from mosaic.ui.web.pages.comparison import ComparedRuns
from mosaic.ui.web.series_api import read_ahead

_AXES = {
    "env_steps": "Env steps",
    "timestamp": "Wall time",
    "episodes_total": "Episodes",
    "training_iteration": "Iterations",
}
_SMALL = 3
_MORE = 24  # at each press of the button
_HEIGHT = 252


class CurvesPanel:
    """Panel built at the run's first metrics and extended by later ones; `asked` comes from the address."""

    def __init__(self, frame: PageLayout, folder: RunFolder, details: RunDetails, asked: str) -> None:
        frame.facts.forget_rows()
        self._frame, self._run_id = frame, folder.run_id
        self._live = details.state not in ENDED
        self._compared = ComparedRuns(frame, folder.run_id, asked)
        self._names: tuple[str, ...] = ()
        self._charts: _Charts | None = None
        self._box = box("stack")
        with self._box, panel("Curves"):
            empty("The first curve appears after the worker's first report.")
        # Metrics of the last iteration are drawn with the page itself; finding all metrics ever reported takes longer.
        if iteration := frame.facts.iteration(folder.run_id):
            self._show(families(name for name, value in leaves(iteration) if isinstance(value, float | int)))

    async def update(self, details: RunDetails) -> None:
        self._live = details.state not in ENDED
        if self._charts is not None:
            self._charts.set_live(self._live)
        if not self._live:
            self._frame.facts.forget_names(self._run_id)
        names = await self._frame.facts.aside(self._frame.facts.names, self._run_id)
        if names is None or names == self._names or self._box.is_deleted:
            return
        self._names = names
        self._show(families(names))

    def _show(self, found: list[Family]) -> None:
        if not found:
            return
        measures = Measures(self._compared.label, found)
        if self._charts is not None:
            self._charts.show(measures)
            return
        read_ahead(self._frame.context, [source.ref for source in self._compared.sources(self._live)])
        self._box.clear()
        with self._box:
            self._charts = _Charts(self._compared, measures, self._live)


@dataclass(frozen=True, slots=True)
class Measures:
    """What a run has measured: charts, each with a curve per policy."""

    run: str  # its label
    families: Sequence[Family]

    @property
    def titles(self) -> list[str]:
        return [each.title for each in self.families]

    @property
    def policies(self) -> list[str]:
        """Return the policies of all charts; their order decides their colours."""
        return policies_of(self.families)

    def policies_in(self, title: str) -> list[str]:
        return policies_of(each for each in self.families if each.title == title)

    def lines(self, title: str) -> list[ChartLine]:
        order, labels = self.policies, self.policies_in(title)
        family = next(each for each in self.families if each.title == title)
        one_policy = len(order) <= 2  # then the mean over all policies and the only policy share one colour
        return [
            ChartLine(
                self.run if len(labels) == 1 else label, family.curves[label], 0 if one_policy else order.index(label)
            )
            for label in labels
        ]


class _Charts:
    """Chart of the chosen measure with its controls, and small charts of other measures."""

    def __init__(self, compared: ComparedRuns, measures: Measures, live: bool) -> None:
        self._compared, self._measures, self._live = compared, measures, live
        self._main, self._chosen = measures.titles[0], False  # whether the viewer chose it
        self._hidden: set[str] = set()
        with panel(body="m-body tight"):
            self._feed = LiveFeed(compared.sources(live))
            self._head()
            self._tools()
            for problem in compared.problems:
                raw(escape(problem), "m-note r-unknown").props("role=status")
            with box().style("padding:0 8px 8px 12px"):
                self._plot = chart(_HEIGHT)
                raw(
                    "Drag over a curve to look closer, or press + and − on it; 0 shows all of it again.",
                    "small faint r-hint",
                )
            self._draw_main()
            self._feed.begin()
            self._small = _SmallCharts(self._feed, lambda: self._small.show_more(self._measures, self._main))
        self._small.add(measures, self._main)

    def show(self, measures: Measures) -> None:
        """Show what was measured since."""
        if measures == self._measures:
            return
        self._measures = measures
        self._choice.set_options(measures.titles)
        if not self._chosen and self._main != measures.titles[0]:  # such as the return, after the first episode
            self._main = measures.titles[0]
            self._choice.set_value(self._main)
            self._small.restart()
        self._draw_main()
        self._small.redraw(measures)
        self._draw_labels()
        self._small.add(measures, self._main)

    def set_live(self, live: bool) -> None:
        resumed, self._live = live and not self._live, live
        if resumed:
            self._feed.compare(self._compared.sources(live))  # listen again
            self._feed.reload()

    def _head(self) -> None:
        feed = self._feed
        with box("r-curvehead"):
            self._choice = select(self._measures.titles, self._main, label="Measure", on_change=self._choose_main)
            self._choice.style("width:230px").classes("r-measure")
            with box("end"):
                Segmented(_AXES, "env_steps", feed.set_axis, "Horizontal axis")
                button(
                    glyph="file",
                    kind="ghost small",
                    label="Save the curve as CSV",
                    on_click=lambda: feed.save_csv(self._plot),
                )
                button(
                    glyph="export",
                    kind="ghost small",
                    label="Save the picture as PNG",
                    on_click=lambda: feed.save_png(self._plot),
                )

    def _tools(self) -> None:
        feed = self._feed
        with box("r-tools"):
            self._labels = box("row wrap")
            self._draw_labels()
            self._band = toggle("band", True, feed.set_bands)
            self._compared.add_controls(self._compare)
            way_back(feed)
            with box("r-smooth").style("margin-left:auto"):
                raw("Smoothing", "", "span")
                slider = ui.slider(min=0, max=0.95, step=0.05, value=0.6)
                slider.on_value_change(lambda event: feed.set_smoothing(event.value))
                slider.props("dense aria-label=Smoothing")

    def _draw_labels(self) -> None:
        """Show a switch for each policy in the main chart."""
        labels, order = self._measures.policies_in(self._main), self._measures.policies
        self._labels.clear()
        self._labels.set_visibility(len(labels) > 1)
        with self._labels:
            for label in labels if len(labels) > 1 else ():
                key = f"{series_key(order.index(label))}{escape(label)}"
                toggle(key, label not in self._hidden, partial(self._show_label, label))

    def _show_label(self, label: str, on: bool) -> None:
        self._hidden.discard(label) if on else self._hidden.add(label)
        self._feed.set_shown(label, on)

    def _choose_main(self, chosen: str) -> None:
        if chosen == self._main:
            return
        self._main, self._chosen = chosen, True
        self._draw_labels()
        self._draw_main()

    def _compare(self) -> None:
        self._fit()
        self._feed.compare(self._compared.sources(self._live))

    def _draw_main(self) -> None:
        self._feed.draw(self._plot, self._measures.lines(self._main), self._main)
        self._fit()

    def _fit(self) -> None:
        curves = (1 + len(self._compared.refs)) * len(self._measures.lines(self._main))
        self._plot.style(chart_height(_HEIGHT, curves))
        self._band.set_visibility(curves <= FEW_CURVES)


class _SmallCharts:
    """Charts of measures other than the main one: a few at first, on demand more."""

    def __init__(self, feed: LiveFeed, on_more: Callable[[], None]) -> None:
        self._feed = feed
        self._plots: dict[str, ui.echart] = {}
        self._most = _SMALL
        self._grid = box("r-charts")
        with box("r-more") as self._more:
            self._button = button("", on_more, kind="ghost small")

    def add(self, measures: Measures, main: str) -> None:
        """Draw measures that have no chart yet."""
        rest = [name for name in measures.titles if name not in (main, *self._plots)]
        for name in rest[: self._most - len(self._plots)]:
            with self._grid, box():
                raw(f"<b>{escape(name)}</b>", "t")
                self._plots[name] = chart(104)
                self._feed.draw(self._plots[name], measures.lines(name), name)
        hidden = len(measures.titles) - 1 - len(self._plots)
        self._more.set_visibility(hidden > 0)
        self._button.set_content(f"Show {min(hidden, _MORE)} more measures")

    def restart(self) -> None:
        """Remove the charts; the measures that are looked at most follow."""
        self._feed.forget(self._plots.values())
        self._plots.clear()
        self._grid.clear()

    def redraw(self, measures: Measures) -> None:
        for name, plot in self._plots.items():
            self._feed.draw(plot, measures.lines(name), name)

    def show_more(self, measures: Measures, main: str) -> None:
        self._most += _MORE
        self.add(measures, main)
