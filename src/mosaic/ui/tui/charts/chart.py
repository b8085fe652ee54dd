"""Chart widget, a plot in characters: dots of braille for curves, shaded cells for bands, ticks and a legend.

A chart of 140 columns takes a few milliseconds: each curve is one value per column of dots, computed with numpy. It is
drawn again only when the plot or its size changes.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget
from textual_plot.axis_formatter import NumericAxisFormatter

from mosaic.ui.tui.charts.plot import Floats, Line, Plot, format_x


class Chart(Widget):
    DEFAULT_CSS = "Chart { height: 1fr; width: 1fr; }"

    def __init__(self, plot: Plot, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plot = plot
        self._strips: list[Strip] = []
        self._drawn_for: Size | None = None  # None: the plot is another one

    @property
    def plot(self) -> Plot:
        return self._plot

    def show(self, plot: Plot) -> None:
        if plot is not self._plot:
            self._plot, self._drawn_for = plot, None
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if self._drawn_for != self.size:
            self._strips = draw(self._plot, self.size.width, self.size.height)
            self._drawn_for = self.size
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)


_BACK, _FAINT = "#121821", "#7d8794"
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])  # of a braille cell, by row and column
_POINT = 0x100  # a bit that no braille cell has
_MARK = "▲"
_AROUND = 3  # rows of title, axis and ticks
_ticks = NumericAxisFormatter()


def draw(plot: Plot, width: int, height: int) -> list[Strip]:
    """Return `height` strips of `width` cells."""
    drawn = [line for line in plot.lines if np.isfinite(line.y).any()]
    rows = height - _AROUND
    if not drawn or rows < 1:
        return _empty(plot, width, height)
    low, high = _range(drawn)
    labels = _y_labels(low, high, rows)
    margin = min(max(cell_len(text) for text in labels), max(1, width - 8)) + 1
    columns = max(1, width - margin)
    whole = [*(end for line in drawn for end in (line.x[0], line.x[-1])), *plot.marks]
    left, right = plot.span or (min(whole), max(whole))
    if right <= left:  # a single point, at the end of an axis that begins with the run
        left, right = (0.0, right) if right > 0 else (left, left + 1.0)
    cells = _Cells(rows, columns)
    for line in drawn:
        cells.shade(line, (left, right), (low, high))
    for line in drawn:
        cells.trace(line, (left, right), (low, high))
    body = [
        Strip([Segment(set_cell_size(text.rjust(margin - 1), margin - 1) + "│", _style(_FAINT)), *line], width)
        for text, line in zip(labels, cells.lines(), strict=True)
    ]
    axis = _axis(plot, left, right, columns, margin)
    return [_head(plot, drawn, width), *body, *axis]


class _Cells:
    def __init__(self, rows: int, columns: int) -> None:
        self._rows, self._columns = rows, columns
        self._bits = np.zeros((rows, columns), np.int64)
        self._ink = np.zeros((rows, columns), np.int64)
        self._ground = np.zeros((rows, columns), np.int64)
        self._colours = [""]  # no curve

    def shade(self, line: Line, span: tuple[float, float], ends: tuple[float, float]) -> None:
        """Shade the cells between the curve's low and high."""
        number = self._number(line.colour)
        if not len(line.low):
            return
        at = np.linspace(*span, self._columns)
        low, high = (_at(at, line.x, values, ends, 4 * self._rows) for values in (line.low, line.high))  # in dots
        row = np.arange(self._rows)[:, None]
        # A band less than two cells high is the curve itself. Comparisons with NaN are False.
        self._ground[(row >= high // 4) & (row <= low // 4) & (low - high >= 8)] = number

    def trace(self, line: Line, span: tuple[float, float], ends: tuple[float, float]) -> None:
        """Set the dots of the curve, one per column of dots, connected where it is steep."""
        number = self._number(line.colour)
        known = np.isfinite(line.y)
        if known.sum() == 1:
            self._point(float(line.x[known][0]), line.y[known], number, span, ends)
            return
        at = np.linspace(*span, 2 * self._columns)
        found = _at(at, line.x, line.y, ends, 4 * self._rows)
        if not np.isfinite(found).any():  # all points lie between two columns
            keep = np.isfinite(line.y) & (line.x >= span[0]) & (line.x <= span[1])
            for x, y in zip(line.x[keep], line.y[keep], strict=True):
                place = round((x - span[0]) / (span[1] - span[0]) * (2 * self._columns - 1))
                found[place] = _row(np.array([y]), ends, 4 * self._rows)[0]
        before = np.concatenate([found[:1], found[:-1]])
        before = np.where(np.isfinite(before), before, found)
        # The column before has its own end of a steep part already.
        top = np.where(before < found, before + 1, found)
        bottom = np.where(before > found, before - 1, found)
        dot = np.arange(4 * self._rows)[:, None]
        dots = (dot >= top) & (dot <= bottom)
        bits = np.einsum("rica,ia->rc", dots.reshape(self._rows, 4, self._columns, 2), _DOTS)
        self._bits |= bits
        self._ink[bits > 0] = number

    def _point(self, x: float, y: Floats, number: int, span: tuple[float, float], ends: tuple[float, float]) -> None:
        """Set the cell of a curve that has one point: one dot of braille would hardly be seen."""
        if span[0] <= x <= span[1]:
            place = int(_row(y, ends, self._rows)[0]), round((x - span[0]) / (span[1] - span[0]) * (self._columns - 1))
            self._bits[place], self._ink[place] = _POINT, number

    def lines(self) -> list[list[Segment]]:
        found = []
        for bits, ink, ground in zip(self._bits, self._ink, self._ground, strict=True):
            edges = np.flatnonzero((np.diff(ink) != 0) | (np.diff(ground) != 0)) + 1
            starts = [0, *edges.tolist()]
            segments = []
            for start, end in zip(starts, [*starts[1:], self._columns], strict=True):
                text = "".join(_character(bit) for bit in bits[start:end].tolist())
                style = _style(self._colours[int(ink[start])], self._colours[int(ground[start])])
                segments.append(Segment(text, style))
            found.append(segments)
        return found

    def _number(self, colour: str) -> int:
        if colour not in self._colours:
            self._colours.append(colour)
        return self._colours.index(colour)


def _character(bits: int) -> str:
    return " " if not bits else "●" if bits >= _POINT else chr(0x2800 + bits)


def _at(at: Floats, x: Floats, y: Floats, ends: tuple[float, float], rows: int) -> Floats:
    """Return the row of a curve at each column; NaN where the curve does not reach."""
    keep = np.isfinite(y)
    if not keep.any():
        return np.full(len(at), np.nan)
    return _row(np.interp(at, x[keep], y[keep], left=np.nan, right=np.nan), ends, rows)


def _row(values: Floats, ends: tuple[float, float], rows: int) -> Floats:
    low, high = ends
    share = np.clip((high - values) / (high - low), 0.0, 1.0)
    found: Floats = np.where(np.isfinite(values), np.minimum(np.floor(share * rows), rows - 1), np.nan)
    return found


def _range(lines: list[Line]) -> tuple[float, float]:
    values = np.concatenate([part for line in lines for part in (line.y, line.low, line.high)])
    values = values[np.isfinite(values)]
    low, high = float(values.min()), float(values.max())
    if low == high:
        return low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    edge = (high - low) * 0.04
    return low - edge, high + edge


def _y_labels(low: float, high: float, rows: int) -> list[str]:
    ticks = _ticks.get_ticks(low, high, max(2, rows // 2))
    texts = _ticks.get_labels_for_ticks(ticks)
    labels = [""] * rows
    for tick, text in zip(ticks, texts, strict=True):
        place = _row(np.array([tick]), (low, high), rows)[0]
        if low <= tick <= high:
            labels[int(place)] = f"{tick:.3g}" if len(text) > 7 else text
    return labels


def _axis(plot: Plot, left: float, right: float, columns: int, margin: int) -> list[Strip]:
    def column(x: float) -> int:
        return min(columns - 1, max(0, round((x - left) / (right - left) * (columns - 1))))

    line = ["─"] * columns
    for mark in plot.marks:
        if left <= mark <= right:
            line[column(mark)] = _MARK
    below = [" "] * columns
    name = plot.x_name.replace("_", " ") if plot.x_name != "timestamp" else "since the start"
    free = columns - len(name) - 1
    taken, last = -1, ""
    for tick in _ticks.get_ticks(left, right, max(2, columns // 16)):
        text = format_x(tick, plot.x_name)
        start = max(0, column(tick) - len(text) // 2)
        if left <= tick <= right and start > taken and start + len(text) <= free and text != last:
            below[start : start + len(text)] = text
            taken, last = start + len(text), text
    if free > 0:
        below[columns - len(name) :] = name
    style = _style(_FAINT)
    return [
        Strip([Segment(" " * (margin - 1) + "└" + "".join(line), style)], margin + columns),
        Strip([Segment(" " * margin + "".join(below), style)], margin + columns),
    ]


def _head(plot: Plot, lines: list[Line], width: int) -> Strip:
    segments = [Segment(plot.title, Style(bold=True))]
    if len(lines) > 1:
        for line in lines:
            segments += [Segment("  ━ ", _style(line.colour)), Segment(line.label)]
    else:
        finite = lines[0].y[np.isfinite(lines[0].y)]
        segments += [Segment(f"  {finite[-1]:,.4g}", _style(lines[0].colour))]
    if plot.hidden:
        segments.append(Segment(f"  and {plot.hidden} more", _style(_FAINT)))
    return Strip(segments).adjust_cell_length(width)


def _empty(plot: Plot, width: int, height: int) -> list[Strip]:
    blank = Strip.blank(width)
    strips = [blank] * max(0, height)
    if height:
        strips[0] = Strip([Segment(plot.title, Style(bold=True))]).adjust_cell_length(width)
    if height > 2:
        words = "no values yet" if not plot.lines else "no values here"
        strips[height // 2] = Strip([Segment(words.center(width), _style(_FAINT))]).adjust_cell_length(width)
    return strips


@lru_cache(maxsize=256)
def _style(ink: str, ground: str = "") -> Style:
    """Return the style of a curve over a band; a band has a quarter of its curve's colour."""
    back = _blend(ground) if ground else None
    return Style.from_color(Color.parse(ink) if ink else None, back)


def _blend(colour: str, share: float = 0.25) -> Color:
    one, other = (Color.parse(text).get_truecolor() for text in (colour, _BACK))
    red, green, blue = (round(a * share + b * (1 - share)) for a, b in zip(one, other, strict=True))
    return Color.from_rgb(red, green, blue)
