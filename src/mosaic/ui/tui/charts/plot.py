"""Plots: what a chart draws, as immutable records, built from series of runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from mosaic.ui.web.components.theme import count, duration
from mosaic.ui.web.data.chart_groups import ALL, RETURN, Family

if TYPE_CHECKING:
    from mosaic.ui.series import Series

Floats = NDArray[np.float64]
COLOURS = ("#2dbfab", "#f0a35e", "#79aef5", "#d08fdc", "#d9cf6a", "#9aa3ae")  # those of the web app
MOST_RUNS = 6
GROUP = "group:"  # start of a reference to a seed group
FEW_CURVES = 2  # more bands than these hide each other
MOST_CURVES = 12  # of one chart
X_NAMES = {
    "env_steps": "env steps",
    "timestamp": "since the start",
    "episodes_total": "episodes",
    "training_iteration": "iterations",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A curve; low and high are empty where it has no band."""

    label: str
    colour: str
    x: Floats
    y: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, slots=True)
class Plot:
    title: str
    lines: tuple[Line, ...]
    x_name: str = "env_steps"
    marks: tuple[float, ...] = ()  # x of checkpoints
    span: tuple[float, float] | None = None  # of x; None: that of the lines
    hidden: int = 0  # curves that are not drawn, as they could not be told apart


def smooth(values: Floats, weight: float) -> Floats:
    """Return exponential moving averages, as the web app draws them; NaN stays where it is."""
    if not weight:
        return values
    found, last = values.copy(), float("nan")
    for place, value in enumerate(values.tolist()):
        if value == value:
            last = value if last != last else last * weight + value * (1 - weight)
            found[place] = last
    return found


def natural(text: str) -> list[tuple[int, int, str]]:
    """Return a sort key in which policy_2 comes before policy_10."""
    parts = re.split(r"(\d+)", text)
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts]


def metrics_of(family: Family) -> list[str]:
    """Return the metrics that a chart needs; that of the return also the least and greatest of each curve."""
    bounds = [end for metric in family.curves.values() for end in _ends(metric)] if family.title == RETURN else []
    return [*family.curves.values(), *bounds]


def _ends(metric: str) -> tuple[str, str]:
    """Return the metrics of the least and greatest episode beside that of the mean."""
    start = metric.removesuffix("mean")
    return f"{start}min", f"{start}max"


def sorted_labels(family: Family) -> list[str]:
    """Return the labels of a chart: all policies together, then each, policy_2 before policy_10."""
    return sorted(family.curves, key=lambda label: (label != ALL, natural(label)))


def plot_of(
    family: Family, found: Sequence[Series], refs: Mapping[str, str], smoothing: float, x_name: str = "env_steps"
) -> Plot:
    """Return the chart of a family: a curve per policy of each run; `refs` gives each run its label."""
    known = {(each.ref, each.metric): each for each in found}
    labels = sorted_labels(family)
    wanted = [(ref, label) for ref in refs for label in labels if (ref, family.curves[label]) in known]
    lines = []
    for place, (ref, label) in enumerate(wanted[:MOST_CURVES]):
        series = known[ref, family.curves[label]]
        name = refs[ref] if len(labels) == 1 else label if len(refs) == 1 else f"{refs[ref]} {label}"
        low, high = np.empty(0), np.empty(0)
        if len(wanted) <= FEW_CURVES:
            lowest, highest = (known.get((ref, end)) for end in _ends(series.metric))
            low, high = _band(series, lowest, highest, family)
        y = smooth(_floats(series.mean), smoothing)
        lines.append(Line(name, COLOURS[place % len(COLOURS)], np.asarray(series.x), y, low, high))
    return Plot(family.title, tuple(lines), x_name, hidden=max(0, len(wanted) - MOST_CURVES))


def _band(series: Series, lowest: Series | None, highest: Series | None, family: Family) -> tuple[Floats, Floats]:
    """Return the least and greatest episode where they were reported, else the extremes of each point; of a seed group,
    the interval of its mean.
    """
    own = not series.ref.startswith(GROUP)
    if own and family.title == RETURN and lowest is not None and highest is not None:
        x = np.asarray(series.x)
        ends = [(_floats(each), np.asarray(of.x)) for each, of in ((lowest.low, lowest), (highest.high, highest))]
        if all(len(values) and np.isfinite(values).all() for values, _ in ends):
            low, high = (np.interp(x, at, values) for values, at in ends)
            return low, high
    return _floats(series.low), _floats(series.high)


def _floats(values: Sequence[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], float)


def format_x(value: float, x_name: str) -> str:
    return duration(value) if x_name == "timestamp" else count(value).replace("\u202f", "")


def as_csv(plot: Plot) -> str:
    """Return all points of a plot, one per row."""
    rows = [f"label,{plot.x_name},value,low,high"]
    for line in plot.lines:
        banded = len(line.low) == len(line.x)
        for place, (x, y) in enumerate(zip(line.x.tolist(), line.y.tolist(), strict=True)):
            low, high = (line.low[place], line.high[place]) if banded else ("", "")
            label = '"' + line.label.replace('"', '""') + '"' if set(line.label) & set(',"\n') else line.label
            rows.append(f"{label},{x:g},{y:.10g},{low},{high}")
    return "\n".join(rows) + "\n"
