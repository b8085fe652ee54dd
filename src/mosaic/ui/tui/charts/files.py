"""Charts as files: PNG and SVG pictures, and CSV tables."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mosaic.core.errors import InputError
from mosaic.core.files import replace_file
from mosaic.ui.tui.charts.plot import X_NAMES, Floats, Plot, as_csv, format_x

_SIZE = (960, 540)
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 20, 48, 52
_GROUND, _INK, _GRID = "#ffffff", "#333a44", "#dde2e8"
FORMATS = (".png", ".svg", ".csv")


class _Text(NamedTuple):
    x: float
    y: float
    words: str
    colour: str = _INK


class _Path(NamedTuple):
    points: list[tuple[float, float]]
    colour: str
    width: int = 1


class _Area(NamedTuple):
    points: list[tuple[float, float]]
    colour: str


def save_chart(plot: Plot, path: Path) -> None:
    """Write a chart; the suffix of the path chooses the format."""
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise InputError(f"'{path}': a chart is saved as {', '.join(FORMATS)}, chosen by the end of its name.")
    if not any(np.isfinite(line.y).any() for line in plot.lines):
        raise InputError(f"The chart '{plot.title}' has no values to save yet.")
    path.parent.mkdir(parents=True, exist_ok=True)
    if suffix == ".csv":
        replace_file(path, lambda new: new.write_text(as_csv(plot)))
    elif suffix == ".svg":
        replace_file(path, lambda new: new.write_text(_svg(list(_parts(plot)))))
    else:
        replace_file(path, lambda new: _write_png(list(_parts(plot)), new))


def _parts(plot: Plot) -> Iterator[_Text | _Path | _Area]:
    from textual_plot.axis_formatter import NumericAxisFormatter

    ticks = NumericAxisFormatter()
    lines = [line for line in plot.lines if np.isfinite(line.y).any()]
    values = np.concatenate([part[np.isfinite(part)] for line in lines for part in (line.y, line.low, line.high)])
    low, high = float(values.min()), float(values.max())
    low, high = (low - 0.5, high + 0.5) if low == high else (low, high)
    whole = [*(end for line in lines for end in (line.x[0], line.x[-1])), *plot.marks]
    left, right = plot.span or (min(whole), max(whole))
    right = right if right > left else left + 1.0
    wide, tall = _SIZE[0] - _LEFT - _RIGHT, _SIZE[1] - _TOP - _BOTTOM

    def place(x: float, y: float) -> tuple[float, float]:
        return _LEFT + (x - left) / (right - left) * wide, _TOP + (high - y) / (high - low) * tall

    for line in lines:
        if len(line.low):
            edges = [*_points(line.x, line.low, left, right), *reversed(_points(line.x, line.high, left, right))]
            yield _Area([place(*point) for point in edges], _pale(line.colour))
    for tick in ticks.get_ticks(low, high):
        if low <= tick <= high:
            yield _Path([place(left, tick), place(right, tick)], _GRID)
            yield _Text(8, place(left, tick)[1] - 6, f"{tick:g}")
    for tick in ticks.get_ticks(left, right):
        if left <= tick <= right:
            yield _Text(place(tick, low)[0] - 10, _SIZE[1] - _BOTTOM + 8, format_x(tick, plot.x_name))
    for mark in plot.marks:
        if left <= mark <= right:
            x, y = place(mark, low)
            yield _Area([(x - 4, y + 6), (x, y - 2), (x + 4, y + 6)], _INK)
    yield _Text(_SIZE[0] - 120, _SIZE[1] - 22, X_NAMES.get(plot.x_name, plot.x_name))
    yield _Text(_LEFT, 10, plot.title)
    for number, line in enumerate(lines):
        yield _Path([place(*point) for point in _points(line.x, line.y, left, right)], line.colour, 2)
        if len(lines) > 1:
            yield _Text(_LEFT + 150 * (number % 5), 24 + 12 * (number // 5), line.label[:22], line.colour)


def _points(x: Floats, y: Floats, left: float, right: float) -> list[tuple[float, float]]:
    keep = np.isfinite(y) & (x >= left) & (x <= right)
    return list(zip(x[keep].tolist(), y[keep].tolist(), strict=True))


def _pale(colour: str, share: float = 0.25) -> str:
    """Return the colour of a band: a quarter of its curve's colour over the background."""
    parts = [(int(colour[at : at + 2], 16), int(_GROUND[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(ink * share + ground * (1 - share)):02x}" for ink, ground in parts)


def _svg(parts: list[_Text | _Path | _Area]) -> str:
    width, height = _SIZE
    rows = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif">']
    rows.append(f'<rect width="{width}" height="{height}" fill="{_GROUND}"/>')
    for part in parts:
        if isinstance(part, _Text):
            rows.append(f'<text x="{part.x:.1f}" y="{part.y + 10:.1f}" font-size="12" fill="{part.colour}">'
                        f"{escape(part.words)}</text>")  # fmt: skip
            continue
        way = " ".join(f"{x:.1f},{y:.1f}" for x, y in part.points)
        if isinstance(part, _Area):
            rows.append(f'<polygon points="{way}" fill="{part.colour}"/>')
        else:
            rows.append(f'<polyline points="{way}" fill="none" stroke="{part.colour}" stroke-width="{part.width}"/>')
    return "\n".join([*rows, "</svg>"]) + "\n"


def _write_png(parts: list[_Text | _Path | _Area], path: Path) -> None:
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", _SIZE, _GROUND)
    pen = ImageDraw.Draw(picture)
    for part in parts:
        if isinstance(part, _Text):
            pen.text((part.x, part.y), part.words, fill=part.colour)
        elif isinstance(part, _Area):
            pen.polygon(part.points, fill=part.colour)
        elif len(part.points) > 1:
            pen.line(part.points, fill=part.colour, width=part.width)
    picture.save(path, "PNG")
