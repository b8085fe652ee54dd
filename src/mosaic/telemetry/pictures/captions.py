"""Caption strip with labels below a picture."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mosaic.telemetry.pictures.labels import Label
from mosaic.telemetry.pictures.resize import Picture, as_rgb, enlarged

LEAST_WIDTH = 240  # pixels; names cannot be read below this
_SIZE, _LINE, _PAD, _BETWEEN = 13, 18, 6, 10
_COLUMN = 220  # least width of a label where there are several side by side
_GROUND, _NAME, _VALUE = "#0f172a", "#cbd5e1", "#fbbf24"


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
