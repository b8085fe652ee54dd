"""Live curves of a run, alone or with others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from nicegui import app, ui

from mosaic.config.sections import EnvironmentConfig
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.event import leaves
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.live import (
    FEW_CURVES,
    ChartLine,
    LiveFeed,
    SeriesChips,
    chart,
    chart_height,
    way_back,
)
from mosaic.ui.web.components.widgets import Segmented, box, button, empty, panel, raw, select, toggle
from mosaic.ui.web.data.chart_groups import Family, families, policies_of
from mosaic.ui.web.page_api import read_ahead
from mosaic.ui.web.pages.comparison import ComparedRuns

_AXES = {
    "env_steps": "Env steps",
    "timestamp": "Wall time",
    "episodes_total": "Episodes",
    "training_iteration": "Iterations",
}
_SMALL = 3
_MORE = 24  # at each press of the button
_HEIGHT = 252
_STORED = "charts"  # name of the chosen measures among what the pages keep


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
        self._self_play = details.config.get("policy_configuration") == "self_play"
        env = EnvironmentConfig.model_validate(details.config["environment"]).id
        project = str(details.config.get("project") or "")
        self._kept_under = f"project {project}" if project else f"env {env}"
        if iteration := frame.facts.iteration(folder.run_id):
            self._show(self._families(name for name, value in leaves(iteration) if isinstance(value, float | int)))
        self._mark(details)

    def _families(self, names: Iterable[str]) -> list[Family]:
        return families(names, self_play=self._self_play)

    def _mark(self, details: RunDetails) -> None:
        if self._charts is not None:
            self._charts.mark([(each.env_steps, each.best) for each in details.checkpoints])

    async def update(self, details: RunDetails) -> None:
        self._live = details.state not in ENDED
        if self._charts is not None:
            self._charts.set_live(self._live)
        self._mark(details)
        if not self._live:
            self._frame.facts.forget_names(self._run_id)
        names = await self._frame.facts.aside(self._frame.facts.names, self._run_id)
        if names is None or names == self._names or self._box.is_deleted:
            return
        self._names = names
        self._show(self._families(names))
        self._mark(details)

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
            self._charts = _Charts(self._compared, measures, self._live, OwnPanels(self._kept_under))


@dataclass(frozen=True, slots=True)
class Measures:
    """Measurements of a run: charts, each with a curve per policy."""

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
        one_policy = len(order) <= 2 or len(labels) == 1  # then it has the first colour, as the mean over all policies
        return [
            ChartLine(
                self.run if len(labels) == 1 else label, family.curves[label], 0 if one_policy else order.index(label)
            )
            for label in labels
        ]


class OwnPanels:
    """Measures whose small charts a user has chosen, for all runs of a project; without one, of an env."""

    def __init__(self, kept_under: str) -> None:
        self._key = kept_under

    def read(self) -> list[str]:
        """Return the chosen measures; empty as long as none were chosen."""
        return list(app.storage.general.get(_STORED, {}).get(self._key, []))

    def write(self, titles: Sequence[str]) -> None:
        kept = dict(app.storage.general.get(_STORED, {}))
        kept.pop(self._key, None)
        app.storage.general[_STORED] = {**kept, **({self._key: list(titles)} if titles else {})}


class _Charts:
    """Chart of the chosen measure with its controls, and small charts of other measures."""

    def __init__(self, compared: ComparedRuns, measures: Measures, live: bool, panels: OwnPanels) -> None:
        self._compared, self._measures, self._live = compared, measures, live
        self._main, self._chosen = measures.titles[0], False  # whether the viewer chose it
        with panel(body="m-body tight"):
            self._feed = LiveFeed(compared.sources(live))
            self._head()
            self._tools()
            for problem in compared.problems:
                raw(escape(problem), "m-note r-unknown").props("role=status")
            with box().style("padding:0 8px 8px 12px"):
                self._plot = chart(_HEIGHT)
                raw(
                    "Drag over a curve to zoom in, or press + and − on it; 0 resets the zoom. ▲ marks checkpoints.",
                    "small faint r-hint",
                )
            self._draw_main()
            self._feed.begin()
            self._small = _SmallCharts(self._feed, panels)
        self._small.show(measures, self._main)

    def show(self, measures: Measures) -> None:
        """Show what was measured since."""
        if measures == self._measures:
            return
        self._measures = measures
        self._choice.set_options(measures.titles)
        if not self._chosen and self._main != measures.titles[0]:  # such as the return, after the first episode
            self._main = measures.titles[0]
            self._choice.set_value(self._main)
        self._draw_main()
        self._draw_labels()
        self._small.show(measures, self._main)

    @property
    def _stride(self) -> int:
        return max(len(self._measures.policies_in(title)) for title in self._measures.titles)

    def mark(self, checkpoints: list[tuple[int, bool]]) -> None:
        self._feed.show_checkpoints(checkpoints)

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
            self._labels = SeriesChips(feed)
            self._draw_labels()
            self._band = toggle("band", True, feed.set_bands)
            toggle("log scale", False, feed.set_log)
            self._compared.add_controls(self._compare)
            way_back(feed)
            with box("r-smooth").style("margin-left:auto"):
                raw("Smoothing", "", "span")
                slider = ui.slider(min=0, max=0.95, step=0.05, value=0.6)
                slider.on_value_change(lambda event: feed.set_smoothing(event.value))
                slider.props("dense aria-label=Smoothing")

    def _draw_labels(self) -> None:
        """Show a chip for each policy in the main chart, or for each run where only one policy is drawn."""
        labels, order = self._measures.policies_in(self._main), self._measures.policies
        if len(labels) > 1:
            self._labels.show({label: order.index(label) for label in labels})
        else:
            sources = self._compared.sources(self._live)
            self._labels.show({source.label: place * self._stride for place, source in enumerate(sources)})

    def _choose_main(self, chosen: str) -> None:
        if chosen == self._main:
            return
        self._main, self._chosen = chosen, True
        self._draw_labels()
        self._draw_main()
        self._small.show(self._measures, self._main)

    def _compare(self) -> None:
        self._fit()
        self._draw_labels()
        self._feed.compare(self._compared.sources(self._live))

    def _draw_main(self) -> None:
        self._feed.set_stride(self._stride)
        self._feed.draw(self._plot, self._measures.lines(self._main), self._main)
        self._fit()

    def _fit(self) -> None:
        curves = (1 + len(self._compared.refs)) * len(self._measures.lines(self._main))
        self._plot.style(chart_height(_HEIGHT, curves))
        self._band.set_visibility(curves <= FEW_CURVES)


class _SmallCharts:
    """Charts of other measures: those that the user chose, else a few at first and more on demand."""

    def __init__(self, feed: LiveFeed, panels: OwnPanels) -> None:
        self._feed, self._panels = feed, panels
        self._measures, self._main = Measures("", ()), ""
        self._plots: dict[str, ui.echart] = {}
        self._most = _SMALL
        self._grid = box("r-charts")
        with box("r-more row between wrap"):
            self._button = button("", self._show_more, kind="ghost small")
            self._choice = select([], [], label="Own charts", on_change=self._choose, multiple=True)
            self._choice.props('use-chips=false display-value="Choose charts…"').classes("r-own")

    def show(self, measures: Measures, main: str) -> None:
        """Draw the charts of these measures, `main` being drawn above."""
        self._measures, self._main = measures, main
        own = [title for title in self._panels.read() if title in measures.titles]
        rest = [title for title in measures.titles if title != main]
        self._draw(own or rest[: self._most])
        hidden = len(rest) - len(self._plots)
        self._button.set_visibility(hidden > 0 and not own)
        self._button.set_content(f"Show {min(hidden, _MORE)} more measures")
        if self._choice.options != measures.titles:  # setting them takes back what is being chosen
            self._choice.set_options(measures.titles, value=own)

    def _draw(self, titles: Sequence[str]) -> None:
        if list(self._plots) != titles[: len(self._plots)]:
            self._feed.forget(self._plots.values())
            self._plots.clear()
            self._grid.clear()
        for title in titles:
            if title not in self._plots:
                with self._grid, box():
                    raw(f"<b>{escape(title)}</b>", "t")
                    self._plots[title] = chart(104)
            self._feed.draw(self._plots[title], self._measures.lines(title), title)

    def _show_more(self) -> None:
        self._most += _MORE
        self.show(self._measures, self._main)

    def _choose(self, titles: list[str]) -> None:
        if titles != [title for title in self._panels.read() if title in self._measures.titles]:
            self._panels.write(titles)
            self.show(self._measures, self._main)
