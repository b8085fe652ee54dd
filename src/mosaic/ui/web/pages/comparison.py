"""Comparison of runs: those drawn beside a run, and several in one chart with only the settings that differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from html import escape

from nicegui import run as threads

from mosaic.core.ids import Json
from mosaic.store.index.summary import RunSummary
from mosaic.store.state import State
from mosaic.ui.cli.group_results import short_differences
from mosaic.ui.series import GROUP
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.live import (
    FEW_CURVES,
    MOST_SOURCES,
    ChartLine,
    LiveFeed,
    SeriesChips,
    Source,
    chart,
    chart_height,
    way_back,
)
from mosaic.ui.web.components.theme import clipped, count, number, series_key, title
from mosaic.ui.web.components.widgets import Segmented, box, button, panel, raw, replace_address, select, toggle
from mosaic.ui.web.data.chart_groups import ALL, RETURN, Family, families, measure_title
from mosaic.ui.web.data.compared_runs import address, mean_of, read_compared, sources_of
from mosaic.ui.web.data.facts import REWARD, Facts
from mosaic.ui.web.data.run_list import RunListView
from mosaic.ui.web.pages.statistics import StatisticsPanel

_AXES = {"env_steps": "Env steps", "timestamp": "Wall time", "episodes_total": "Episodes"}
_MOST_IN_TABLE = 10  # a table with more rows is higher than the chart beside it
_HEIGHT = 248


class ComparedRuns:
    """Runs and seed groups whose curves are drawn beside a run's own, and the controls that choose them."""

    def __init__(self, frame: PageLayout, run_id: str, asked: str) -> None:
        self._facts, self._run_id = frame.facts, run_id
        self._summary = next((row for row in frame.facts.rows(hidden=True) if row.run_id == run_id), None)
        self._group = GROUP + self._summary.group if self._summary and self._summary.group else ""
        self.label = title(self._summary) if self._summary else run_id
        self.refs, self.problems = read_compared(frame.context, run_id, asked)

    def sources(self, live: bool) -> list[Source]:
        """Return the run itself, then what it is compared with."""
        return [Source(self._run_id, self.label, live), *sources_of(self.refs, self._facts.rows(hidden=True))]

    def add_controls(self, on_change: Callable[[], None]) -> None:
        def choose(refs: list[str]) -> None:
            self.refs = refs[: MOST_SOURCES - 1]
            replace_address(address(self._run_id, self.refs))
            on_change()

        def choose_seeds(on: bool) -> None:
            others = [ref for ref in self.refs if ref != self._group]
            choose([self._group, *others] if on else others)

        def choose_others(chosen: list[str]) -> None:
            choose([*(ref for ref in self.refs if ref == self._group), *chosen])

        members = self._facts.group(self._group.removeprefix(GROUP))
        if len(members) > 1:
            toggle(f"with {mean_of(members)}", self._group in self.refs, choose_seeds)
        if options := self._offered():
            chosen = [ref for ref in self.refs if ref in options]
            choice = select(options, chosen, label="Other runs", on_change=choose_others, multiple=True)
            choice.props(f'use-chips=false max-values={MOST_SOURCES - 1} display-value="Compare with…"')
            choice.style("width:156px")

    def _offered(self) -> dict[str, str]:
        """Return compared runs first, then runs of the same environment, whose curves are comparable."""
        env = self._summary.env if self._summary else ""
        rows = [row for row in self._facts.rows() if row.run_id != self._run_id]
        rows.sort(key=lambda row: (row.run_id not in self.refs, row.env != env))
        options = {row.run_id: title(row) for row in rows[:200] if row.state is not State.QUEUED}
        return options | {mean.ref: mean.label for mean in self._means_of_others(rows)}

    def _means_of_others(self, rows: Sequence[RunSummary]) -> list[Source]:
        sizes = Counter(row.group for row in rows if row.group)
        others = [name for name, size in sizes.items() if size > 1 and GROUP + name != self._group]
        return sources_of([GROUP + name for name in others if self._facts.is_seed_group(name)], rows)


class Comparison:
    """Panels that stay while their content changes: a measure of several runs, settings that differ, statistics."""

    def __init__(self, facts: Facts, view: RunListView, on_change: Callable[[], None]) -> None:
        """Build them; `view` has the choices of the viewer, and `on_change` is called after one of them has changed."""
        self._facts, self._view, self._on_change = facts, view, on_change
        self._runs: Sequence[RunSummary] = ()
        self._families: dict[str, Family] = {}
        with panel("Compare", hint="\N{NO-BREAK SPACE}", body="m-body tight") as end:
            with box("m-cols").style("grid-template-columns:minmax(0,1.35fr) minmax(0,1fr);gap:0"):
                with box().style("padding:8px 8px 8px 12px"):
                    self._chips_place = box()
                    self._plot = chart(_HEIGHT)
                self._table = raw("", "m-scroll r-differs")
            feed = self._feed = LiveFeed([])
            with self._chips_place:
                self._chips = SeriesChips(feed)
            with end:
                self._choice = select([], None, label="Measure", on_change=self._choose, with_input=True)
                self._choice.style("width:210px").classes("r-measure")
                toggle("log scale", False, feed.set_log)
                way_back(feed)
                Segmented(_AXES, "env_steps", feed.set_axis, "Horizontal axis").classes("hide-phone")
                button("CSV", lambda: feed.save_csv(self._plot), glyph="export", kind="ghost small")
                button("PNG", lambda: feed.save_png(self._plot), glyph="export", kind="ghost small")
        self._statistics = StatisticsPanel(facts, view.by, self._choose_way)

    def show(self, runs: Sequence[RunSummary]) -> None:
        sources = sources_for(runs, self._facts.rows(hidden=True), self._facts.is_seed_group)
        self._plot.style(chart_height(_HEIGHT, len(sources)))
        self._feed.compare(sources)
        self._chips.show({source.label: place for place, source in enumerate(sources)})
        self._runs = runs
        means = sum(source.ref.startswith(GROUP) for source in sources)
        said = left_out(len(runs), len(sources) - means, len(runs[:_MOST_IN_TABLE]))
        self._table.set_content(self._differing(runs[:_MOST_IN_TABLE], means, said))

    async def load(self) -> None:
        """Offer every measure of the runs: reading their names takes a moment."""
        found = await threads.io_bound(self._read, list(self._runs))
        if found is None or self._plot.is_deleted:
            return
        self._families = {family.title: family for family in found}
        first = measure_title(self._runs[0].measure) if self._runs else RETURN
        chosen = next(
            (title for title in (self._view.measure, first) if title in self._families),
            next(iter(self._families), None),
        )
        self._choice.set_options(list(self._families), value=chosen)
        if chosen is not None:
            self._draw(chosen)
        await self._statistics.load(self._runs)

    def _read(self, runs: Sequence[RunSummary]) -> list[Family]:
        names = {name: None for row in runs for name in self._facts.names(row.run_id)}
        return families(names, self_play=any(row.measure != REWARD for row in runs))

    def _choose(self, title: str | None) -> None:
        if title is not None and title in self._families and title != self._view.measure:
            self._view.measure = title
            self._on_change()
            self._draw(title)

    def _choose_way(self, by: str) -> None:
        self._view.by = by
        self._on_change()

    def _draw(self, title: str) -> None:
        """Draw the measure of all policies together where it has that, else of each policy."""
        curves = self._families[title].curves
        shown = {ALL: curves[ALL]} if ALL in curves else curves
        lines = [ChartLine(label, metric) for label, metric in shown.items()]
        self._feed.draw(self._plot, lines[:1] if len(self._runs) > FEW_CURVES else lines, title)

    def _differing(self, chosen: Sequence[RunSummary], before: int, said: str) -> str:
        found = short_differences([self._facts.details(row.run_id).config for row in chosen])
        heads = "".join(f'<th class="mono">{escape(key)}</th>' for key in ("score", "env steps", *found))
        body = ""
        for index, row in enumerate(chosen):
            score = f'{number(row.score)} <span class="faint">{measure_title(row.measure).lower()}</span>'
            cells = (score, count(row.env_steps), *(_value(values[index]) for values in found.values()))
            body += (
                f'<tr><th scope="row"><span class="row">{series_key(before + index)}{clipped(title(row))}</span></th>'
                f"{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
            )
        caption = f"<caption>{escape(said)}</caption>" if said else ""
        return (
            f'<table class="m-table dense">{caption}<thead><tr><th>What differs</th>{heads}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        )


def sources_for(
    ticked: Sequence[RunSummary], rows: Sequence[RunSummary], is_seed_group: Callable[[str], bool]
) -> list[Source]:
    """Return the runs, preceded by the mean of their seed group where all belong to one and there is room for it."""
    groups = {row.group for row in ticked}
    alone = len(groups) == 1 and len(ticked) < MOST_SOURCES
    mean = [GROUP + group for group in groups if group and alone and is_seed_group(group)]
    return sources_of([*mean, *(row.run_id for row in ticked[:MOST_SOURCES])], rows)


def left_out(ticked: int, drawn: int, listed: int) -> str:
    """Return a note on which selected runs are not shown, and why."""
    chart = f"the chart shows {drawn}, more cannot be distinguished" if drawn < ticked else ""
    table = f"this table shows {listed}, more would be unreadable" if listed < ticked else ""
    return f"Of {ticked} runs {'; '.join(filter(None, (chart, table)))}." if chart or table else ""


def _value(value: Json) -> str:
    if value is None or value == {}:
        return '<span class="faint">—</span>'
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return f'<span class="clip">{escape(text)}</span>'
