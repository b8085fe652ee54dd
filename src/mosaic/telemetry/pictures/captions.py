"""Captions of a picture: labels with each agent's name and return, as one line of text or in a strip below it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mosaic.telemetry.pictures.resize import Picture, as_rgb, enlarged

LEAST_WIDTH = 240  # pixels; names cannot be read below this
_SIZE, _LINE, _PAD, _BETWEEN = 13, 18, 6, 10
_COLUMN = 220  # least width of a label where there are several side by side
_GROUND, _NAME, _VALUE = "#0f172a", "#cbd5e1", "#fbbf24"


_SEPARATOR, _IS = ", ", "="


class Label(NamedTuple):
    name: str
    value: str


def return_labels(returns: Mapping[str, float]) -> list[Label]:
    return [Label(agent, f"{total:.4g}") for agent, total in returns.items()]


def to_line(labels: Sequence[Label], most_bytes: int) -> str:
    """Format labels as `red_0=1.5, red_1=-2`, or as `red_0=1.5, +7 more` where there is no room for all.

    A label without a value is its name alone; it needs a label with a value after it to be distinguished from an agent.
    """
    parts = [f"{label.name}{_IS}{label.value}" if label.value else label.name for label in labels]
    for kept in range(len(parts), 0, -1):
        left = len(parts) - kept
        line = _SEPARATOR.join([*parts[:kept], *([f"+{left} more"] if left else [])])
        if len(line.encode()) <= most_bytes:
            return line
    return f"{len(parts)} agents" if parts else ""


def from_line(line: str, value: float) -> list[Label]:
    """Parse the labels of a frame; a line with just one agent, or none, gets the frame's own return as value."""
    if _IS not in line:
        return [Label(line or "return", f"{value:.4g}")]
    labels = []
    for part in line.split(_SEPARATOR):
        name, _, shown = part.rpartition(_IS)
        labels.append(Label(name, shown) if name else Label(part, ""))
    return labels


def with_strip(picture: Picture, title: str, labels: Sequence[Label], rows: int | None = None) -> Picture:
    """Return the picture, enlarged if it is too small, with title and labels below it.

    A fixed number of `rows` of labels keeps the size of a video constant when agents come and go; labels that do not
    fit are counted.
    """
    picture = enlarged(as_rgb(picture), LEAST_WIDTH)
    width = picture.shape[1]
    rows = rows_of(len(labels), width) if rows is None else rows
    strip = _drawn(title, tuple(labels), rows, width)
    return np.concatenate([picture, strip])


def rows_of(labels: int, width: int) -> int:
    """Return how many lines this many labels take below a picture of this width."""
    return math.ceil(labels / _columns(max(width, LEAST_WIDTH)))


@lru_cache(maxsize=8)  # captions often change less often than the picture
def _drawn(title: str, labels: tuple[Label, ...], rows: int, width: int) -> Picture:
    strip = Image.new("RGB", (width, 2 * _PAD + _LINE * (rows + 1)), _GROUND)
    pen, font = ImageDraw.Draw(strip), ImageFont.load_default(_SIZE)
    pen.text((_PAD, _PAD), _cut(title, font, width - 2 * _PAD), _NAME, font)
    columns = _columns(width)
    for index, label in enumerate(_fitting(labels, rows * columns)):
        row, column = divmod(index, columns)
        left, right = column * width // columns + _PAD, (column + 1) * width // columns - _PAD
        top = _PAD + _LINE * (row + 1)
        value = _cut(label.value, font, right - left)
        name = _cut(label.name, font, right - left - font.getlength(value) - _BETWEEN)
        pen.text((left, top), name, _NAME, font)
        pen.text((left + font.getlength(name) + _BETWEEN, top), value, _VALUE, font)
    return np.asarray(strip)


def _columns(width: int) -> int:
    return max(1, width // _COLUMN)


def _fitting(labels: tuple[Label, ...], room: int) -> tuple[Label, ...]:
    if len(labels) <= room:
        return labels
    return (*labels[: room - 1], Label(f"+{len(labels) - room + 1} more", "")) if room else ()


def _cut(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: float) -> str:
    """Return the text, or its beginning and `…` where it would be too long."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(text + "…") > width:
        text = text[:-1]
    return text + "…" if text else ""
