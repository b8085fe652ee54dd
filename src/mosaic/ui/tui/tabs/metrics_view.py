"""View of the Metrics tab: what is asked for, and the charts that were read for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from rich.table import Table
from rich.text import Text

from mosaic.core.ids import JsonObject
from mosaic.ui.tui.backend.protocol import AppBackend
from mosaic.ui.tui.charts.plot import COLOURS, GROUP, MOST_CURVES, MOST_RUNS, Plot, metrics_of, plot_of, sorted_labels
from mosaic.ui.tui.tabs.base import stage_of
from mosaic.ui.tui.tabs.runs import short_name
from mosaic.ui.tui.widgets.filter_bar import has_words
from mosaic.ui.web.data.chart_groups import ALL, Family, families
from mosaic.ui.web.data.schema_fields import as_text

if TYPE_CHECKING:
    from mosaic.store.views import RunDetails, RunRow
    from mosaic.telemetry.curves.curves import Axis

AXES: tuple[Axis, ...] = ("env_steps", "timestamp", "episodes_total", "training_iteration")
Curves: TypeAlias = Literal["both", "all policies", "each policy"]
CURVES: tuple[Curves, ...] = get_args(Curves)
SMOOTHINGS = (0.6, 0.9, 0.0)
_MOST_METRICS = 50  # of one request


@dataclass(frozen=True, slots=True)
class Wanted:
    """Selection of the user. `span`: part of the x-axis; None: all of it."""

    refs: tuple[str, ...] = ()
    x: Axis = "env_steps"
    smoothing: float = SMOOTHINGS[0]
    span: tuple[float, float] | None = None
    first: int = 0  # chart
    charts: int = 1
    points: int = 200  # per curve: two per column
    seeds: bool = False  # the mean of the run's seed group in its place
    curves: Curves = "both"  # of a run with several policies
    words: tuple[str, ...] = ()  # filter of charts and policies

    def next_curves(self) -> Wanted:
        return replace(self, curves=CURVES[(CURVES.index(self.curves) + 1) % len(CURVES)])

    def next_axis(self) -> Wanted:
        return replace(self, x=AXES[(AXES.index(self.x) + 1) % len(AXES)], span=None)

    def next_smoothing(self) -> Wanted:
        place = SMOOTHINGS.index(self.smoothing) + 1
        return replace(self, smoothing=SMOOTHINGS[place % len(SMOOTHINGS)])

    def zoomed(self, shown: tuple[float, float], share: float) -> Wanted:
        """Return the span around the same centre, `share` times as wide; it never begins below 0."""
        centre, half = (shown[0] + shown[1]) / 2, (shown[1] - shown[0]) / 2 * share
        return replace(self, span=(max(0.0, centre - half), centre + half))

    def panned(self, shown: tuple[float, float], share: float) -> Wanted:
        way = max((shown[1] - shown[0]) * share, -shown[0])
        return replace(self, span=(shown[0] + way, shown[1] + way))


@dataclass(frozen=True, slots=True)
class MetricsView:
    wanted: Wanted
    details: RunDetails
    titles: tuple[str, ...]  # of all charts
    plots: tuple[Plot, ...]
    seqs: tuple[tuple[str, int], ...]  # newest event of each run: equal means nothing new
    start: str = ""  # what the first run's start is doing; "" once it has sampled
    means: tuple[str, ...] = ()  # labels of the seed groups that are shown in place of runs


def key_of(view: MetricsView | None) -> object:
    """Return what decides whether the screen has to change."""
    if view is None:
        return None
    seeds = tuple(float(line.y[-1]) for plot in view.plots for line in plot.lines) if view.wanted.seeds else ()
    return (
        view.wanted,
        view.details.name,
        view.details.state,
        view.details.checkpoints,
        view.titles,
        view.seqs,
        view.start,
        seeds,
    )


def read_view(backend: AppBackend, wanted: Wanted, now: float) -> MetricsView | None:
    """Read the charts; the curves come downsampled to two points per column."""
    if not wanted.refs:
        return None
    from mosaic.ui.cli.group_results import name_of_group
    from mosaic.ui.series import SeriesQuery

    rows = {row.run_id: row for row in backend.runs.rows()} if len(wanted.refs) > 1 or wanted.seeds else {}
    details = backend.runs.run(wanted.refs[0]).show()
    names = dict.fromkeys(name for ref in wanted.refs[:MOST_RUNS] for name in backend.metrics.names(ref))
    self_play = details.config.get("policy_configuration") == "self_play"
    found = chosen(families(names, self_play=self_play), wanted)
    labels = {}
    for ref in wanted.refs[:MOST_RUNS]:
        row = rows.get(ref)
        if wanted.seeds and row is not None and row.group:
            members = [each for each in rows.values() if each.group == row.group]
            labels[f"{GROUP}{row.group}"] = f"{name_of_group(row.group, members)}: mean of {len(members)} seeds"
        else:
            labels[ref] = ref if row is None else short_name(row, 20)
    first = min(wanted.first, max(0, len(found) - 1))
    shown = [_drawn(family) for family in found[first : first + wanted.charts]]
    metrics = list(dict.fromkeys(metric for family in shown for metric in metrics_of(family)))[:_MOST_METRICS]
    start = stage_of(backend, details, now)
    if not metrics:
        return MetricsView(wanted, details, (), (), (), start)
    left_out = {family.title: len(family.curves) - MOST_CURVES for family in found}
    left, right = wanted.span or (None, None)
    query = SeriesQuery(tuple(labels), tuple(metrics), wanted.x, wanted.points, left, right)
    many = backend.metrics.series(query)
    marks = tuple(float(saved.env_steps) for saved in details.checkpoints) if wanted.x == "env_steps" else ()
    made = [plot_of(family, many.series, labels, wanted.smoothing, wanted.x) for family in shown]
    plots = tuple(
        replace(plot, marks=marks, span=wanted.span, hidden=plot.hidden + max(0, left_out[plot.title]) * len(labels))
        for plot in made
    )
    titles = tuple(family.title for family in found)
    means = tuple(label for ref, label in labels.items() if ref.startswith(GROUP))
    return MetricsView(wanted, details, titles, plots, tuple(sorted(many.last_seq.items())), start, means)


@dataclass(frozen=True, slots=True)
class ComparedRun:
    row: RunRow
    config: JsonObject


def read_compared(backend: AppBackend, refs: Sequence[str]) -> list[ComparedRun]:
    """Read the runs of a comparison with their configurations."""
    rows = {row.run_id: row for row in backend.runs.rows()}
    shown = [rows[ref] for ref in refs[:MOST_RUNS] if ref in rows]
    return [ComparedRun(row, backend.runs.run(row.run_id).show().config) for row in shown]


def settings_table(runs: Sequence[ComparedRun]) -> Table:
    """Return a table of the last results of runs, and of the settings in which they differ."""
    from mosaic.ui.cli.group_results import short_differences
    from mosaic.ui.web.components.theme import count, number

    table = Table.grid(padding=(0, 1), expand=True)
    for place in range(len(runs) + 1):
        table.add_column(no_wrap=True, ratio=1 if place else None, max_width=None if place else 22)
    heads = (Text(short_name(run.row, 20), COLOURS[place % len(COLOURS)]) for place, run in enumerate(runs))
    table.add_row(Text("what differs", "#7d8794"), *heads)
    table.add_row("last return", *(number(run.row.episode_reward_mean) for run in runs))
    table.add_row("env steps", *(count(run.row.env_steps) for run in runs))
    for key, values in short_differences([run.config for run in runs]).items():
        table.add_row(Text(key), *(Text(as_text(value) or "—") for value in values))
    return table


def chosen(found: Sequence[Family], wanted: Wanted) -> list[Family]:
    """Return the charts with the curves that are wanted; the words of a filter are in a title or in a curve's label.

    Of several runs, the curve of each policy is drawn only where it alone is asked for: there would be too many.
    """
    kept = []
    asked: Curves = "all policies" if len(wanted.refs) > 1 and wanted.curves == "both" else wanted.curves
    for family in found:
        curves = {
            label: metric
            for label, metric in family.curves.items()
            if has_words(wanted.words, family.title, label) and _is_wanted(label, family, asked)
        }
        if curves:
            kept.append(replace(family, curves=curves))
    return kept


def _is_wanted(label: str, family: Family, curves: Curves) -> bool:
    several = ALL in family.curves and len(family.curves) > 1
    return curves == "both" or not several or (label == ALL) == (curves == "all policies")


def _drawn(family: Family) -> Family:
    """Return a chart with as many curves as are drawn: no others are read."""
    labels = sorted_labels(family)[:MOST_CURVES]
    return replace(family, curves={label: family.curves[label] for label in labels})
