"""Live curves of a run, alone or with others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from html import escape

from nicegui import ui

from mosaic.store.index.summary import RunSummary
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, State
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.event import leaves
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.live import (
    FEW_CURVES,
    MOST_SOURCES,
    ChartLine,
    LiveFeed,
    Source,
    chart,
    chart_height,
    way_back,
)
from mosaic.ui.web.components.theme import series_key, title
from mosaic.ui.web.components.widgets import Segmented, box, button, empty, panel, raw, replace_address, select, toggle
from mosaic.ui.web.data.chart_groups import Family, families, policies_of
from mosaic.ui.web.data.compared_runs import address, mean_of, read_compared, sources_of
from mosaic.ui.web.series_api import GROUP, read_ahead

_AXES = {
    "env_steps": "Env steps",
    "timestamp": "Wall time",
    "episodes_total": "Episodes",
    "training_iteration": "Iterations",
}
_SMALL = 3
_MOST_SMALL = 24
_HEIGHT = 252


class CurvesPanel:
    """Panel built at the run's first metrics and extended by later ones; `asked` comes from the address."""

    def __init__(self, frame: PageLayout, folder: RunFolder, details: RunDetails, asked: str) -> None:
        self._frame, self._folder = frame, folder
        frame.facts.forget_rows()
        self._summary = next((row for row in frame.facts.rows() if row.run_id == folder.run_id), None)
        self._label = title(self._summary) if self._summary else folder.run_id
        self._found: list[Family] = []
        self._state = details.state
        self._all = False
        self._main = ""
        self._group = GROUP + self._summary.group if self._summary and self._summary.group else ""
        self._compared, self._problems = read_compared(frame.context, folder.run_id, asked)
        self._small: dict[str, ui.echart] = {}
        self._hidden: set[str] = set()
        self._names: tuple[str, ...] = ()
        self._feed: LiveFeed | None = None
        self._box = box("stack")
        with self._box, panel("Curves"):
            empty("The first curve appears after the worker's first report.")
        # Metrics of the last iteration are drawn with the page itself; finding all metrics ever reported takes longer.
        if iteration := frame.facts.iteration(folder.run_id):
            self._show(families(name for name, value in leaves(iteration) if isinstance(value, float | int)))

    async def update(self, details: RunDetails) -> None:
        if self._feed is not None and self._state in ENDED and details.state not in ENDED:
            self._show_sources(live=True)  # it was resumed: listen again
            self._feed.reload()
        self._state = details.state
        if details.state in ENDED:
            self._frame.facts.forget_names(self._folder.run_id)
        names = await self._frame.facts.aside(self._frame.facts.names, self._folder.run_id)
        if names is None or names == self._names or self._box.is_deleted:
            return
        self._names = names
        self._show(families(names))

    def _show(self, found: list[Family]) -> None:
        if not found or found == self._found:
            return
        first, self._found = not self._found, found
        if first or self._feed is None:
            self._draw()
            return
        self._choice.set_options([each.title for each in found])
        for name, plot in ((self._main, self._plot), *self._small.items()):
            self._feed.draw(plot, self._lines(name), name)
        self._draw_labels(self._feed)
        self._draw_more()

    def _sources(self, *, live: bool) -> list[Source]:
        """Return the run itself, then what it is compared with."""
        others = sources_of(self._compared, self._frame.facts.rows())
        return [Source(self._folder.run_id, self._label, live), *others]

    def _draw(self) -> None:
        self._box.clear()
        titles = [each.title for each in self._found]
        self._main = titles[0]
        with self._box, panel(body="m-body tight"):
            sources = self._sources(live=self._state not in ENDED)
            read_ahead(self._frame.context, [source.ref for source in sources])
            feed = self._feed = LiveFeed(sources)
            self._head(feed, titles)
            self._tools(feed)
            for problem in self._problems:
                raw(escape(problem), "m-note r-unknown").props("role=status")
            with box().style("padding:0 8px 8px 12px"):
                self._plot = chart(_HEIGHT)
                raw(
                    "Drag over a curve to look closer, or press + and − on it; 0 shows all of it again.",
                    "small faint r-hint",
                )
            feed.draw(self._plot, self._lines(self._main), self._main)
            self._fit()
            feed.begin()
            self._grid = box("r-charts")
            with box("r-more") as self._more:
                self._more_button = button("", self._show_all, kind="ghost small")
        self._draw_more()

    def _head(self, feed: LiveFeed, titles: list[str]) -> None:
        with box("r-curvehead"):
            self._choice = select(titles, self._main, label="Measure", on_change=self._choose_main)
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

    def _tools(self, feed: LiveFeed) -> None:
        with box("r-tools"):
            self._labels = box("row wrap")
            self._draw_labels(feed)
            self._band = toggle("band", True, feed.set_bands)
            members = self._frame.facts.group(self._group.removeprefix(GROUP))
            if len(members) > 1:
                toggle(mean_of(members), self._group in self._compared, self._choose_seeds)
            self._overlay()
            way_back(feed)
            with box("r-smooth").style("margin-left:auto"):
                raw("Smoothing", "", "span")
                slider = ui.slider(min=0, max=0.95, step=0.05, value=0.6)
                slider.on_value_change(lambda event: feed.set_smoothing(event.value))
                slider.props("dense aria-label=Smoothing")

    def _draw_labels(self, feed: LiveFeed) -> None:
        """Show a switch for each policy in the main chart."""
        labels = policies_of(each for each in self._found if each.title == self._main)
        order = policies_of(self._found)
        self._labels.clear()
        self._labels.set_visibility(len(labels) > 1)
        with self._labels:
            for label in labels if len(labels) > 1 else ():
                key = f"{series_key(order.index(label))}{escape(label)}"
                toggle(key, label not in self._hidden, partial(self._show_label, feed, label))

    def _show_label(self, feed: LiveFeed, label: str, on: bool) -> None:
        self._hidden.discard(label) if on else self._hidden.add(label)
        feed.set_shown(label, on)

    def _overlay(self) -> None:
        """Offer compared runs first, then runs of the same environment, whose curves are comparable."""
        env = self._summary.env if self._summary else ""
        chosen = [ref for ref in self._compared if ref != self._group]
        rows = [row for row in self._frame.facts.rows() if row.run_id != self._folder.run_id]
        rows.sort(key=lambda row: (row.run_id not in chosen, row.env != env))
        options = {row.run_id: title(row) for row in rows[:200] if row.state is not State.QUEUED}
        options |= {ref: f"{source.label} of {ref.removeprefix(GROUP)}" for ref, source in self._groups(rows).items()}
        chosen = [ref for ref in chosen if ref in options]
        if options:
            choice = select(options, chosen, label="Other runs", on_change=self._choose_others, multiple=True)
            choice.props(f'use-chips=false max-values={MOST_SOURCES - 1} display-value="Compare with…"')
            choice.style("width:156px")

    def _groups(self, rows: Sequence[RunSummary]) -> dict[str, Source]:
        """Return the means of other seed groups."""
        sizes = Counter(row.group for row in rows if row.group)
        others = [name for name, size in sizes.items() if size > 1 and GROUP + name != self._group]
        refs = [GROUP + name for name in others if self._frame.facts.is_seed_group(name)]
        return {source.ref: source for source in sources_of(refs, rows)}

    def _choose_main(self, chosen: str) -> None:
        self._main = chosen
        if self._feed is not None:
            self._draw_labels(self._feed)
            self._feed.draw(self._plot, self._lines(chosen), chosen)
            self._fit()

    def _choose_seeds(self, on: bool) -> None:
        others = [ref for ref in self._compared if ref != self._group]
        self._compare([self._group, *others] if on else others)

    def _choose_others(self, chosen: list[str]) -> None:
        self._compare([*(ref for ref in self._compared if ref == self._group), *chosen])

    def _compare(self, refs: list[str]) -> None:
        self._compared = refs[: MOST_SOURCES - 1]
        replace_address(address(self._folder.run_id, self._compared))
        self._fit()
        self._show_sources(live=self._state not in ENDED)

    def _show_sources(self, *, live: bool) -> None:
        if self._feed is not None:
            self._feed.compare(self._sources(live=live))

    def _fit(self) -> None:
        curves = (1 + len(self._compared)) * len(self._lines(self._main))
        self._plot.style(chart_height(_HEIGHT, curves))
        self._band.set_visibility(curves <= FEW_CURVES)

    def _draw_more(self) -> None:
        """Draw small charts of measures not shown yet: a few, or all that there is room for."""
        if self._feed is None:
            return
        most = _MOST_SMALL if self._all else _SMALL
        rest = [each.title for each in self._found if each.title not in (self._main, *self._small)]
        for name in rest[: most - len(self._small)]:
            with self._grid, box():
                raw(f"<b>{escape(name)}</b>", "t")
                self._small[name] = chart(104)
                self._feed.draw(self._small[name], self._lines(name), name)
        hidden = len(self._found) - 1 - len(self._small)
        self._more.set_visibility(hidden > 0 and not self._all)
        self._more_button.set_content(f"Show {hidden} more measures")

    def _show_all(self) -> None:
        self._all = True
        self._draw_more()

    def _lines(self, name: str) -> list[ChartLine]:
        order = policies_of(self._found)
        family = next(each for each in self._found if each.title == name)
        labels = policies_of([family])
        one_policy = len(order) <= 2  # then the mean over all policies and the only policy share one colour
        return [
            ChartLine(
                self._label if len(labels) == 1 else label,
                family.curves[label],
                0 if one_policy else order.index(label),
            )
            for label in labels
        ]
