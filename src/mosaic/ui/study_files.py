"""Files of a comparison of methods: its numbers as CSV, and a picture."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from mosaic.core.errors import InputError
from mosaic.core.files import check_folder, write_atomic
from mosaic.evaluation.across_envs import STATISTICS, StudyDocument

if TYPE_CHECKING:
    from PIL.ImageDraw import ImageDraw

_Area: TypeAlias = tuple[int, int, int, int]  # left, top, right, bottom
_Point: TypeAlias = tuple[float, float]
HEADS = ("method", "runs", "interquartile mean", "median", "mean", "optimality gap")
SUFFIXES = (".png", ".csv")
_COLOURS = ("#3b7dd8", "#d9822b", "#2f9e6e", "#b5488f", "#7a6ad0", "#6b7684")
_INK, _FAINT, _GRID = "#1b2430", "#667080", "#dde2ea"
_WIDTH, _ROW, _PAIR, _TOP, _PLOT = 1200, 30, 48, 88, 300  # pixels
_LINE = 140  # characters
_KEPT = "\N{NO-BREAK SPACE}"
_LABEL, _COLUMN, _NAMES = 200, 230, 3  # of the picture's upper part; names of curves in a line below them


def as_csv(study: StudyDocument) -> str:
    """Return one row per number, for spreadsheets and pandas, and the range of scores that each env counts with."""
    file = io.StringIO(newline="")
    out = csv.writer(file, lineterminator="\n")
    out.writerow(["statistic", "method", "other", "env", "threshold", "value", "low", "high"])
    for row in study["methods"]:
        values: Mapping[str, object] = dict(row)
        for name in STATISTICS:
            ends = values[f"{name}_ci95"]
            assert isinstance(ends, list)
            out.writerow([name, row["method"], "", "", "", values[name], *ends])
        for number, threshold in enumerate(study["thresholds"]):
            shares = (row["profile"][number], row["profile_low"][number], row["profile_high"][number])
            out.writerow(["profile", row["method"], "", "", threshold, *shares])
    for pair in study["improvements"]:
        ends = pair["probability_ci95"]
        out.writerow(["probability_of_improvement", pair["first"], pair["second"], "", "", pair["probability"], *ends])
    for env, ends in study["ranges"].items():
        out.writerow(["range", "", "", env, "", "", *ends])
    for env in study["left_out"]:
        out.writerow(["left_out", "", "", env, "", "", "", ""])
    return file.getvalue()


def write_study(study: StudyDocument, path: Path) -> None:
    """Write the comparison as a picture (.png) or as numbers (.csv)."""
    check_out(path)
    write_atomic(path, as_csv(study) if path.suffix.lower() == ".csv" else as_png(study))


def check_out(path: Path) -> None:
    """Refuse before anything is computed what could not be written."""
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"'{path}' has no known file extension. Type a name that ends with {' or '.join(SUFFIXES)}.")
    check_folder(path)


def as_png(study: StudyDocument) -> bytes:
    """Draw the statistics with their intervals, the performance profiles and the probabilities of improvement."""
    from PIL import Image, ImageDraw

    pairs = study["improvements"]
    middle = _TOP + _ROW * len(study["methods"])
    said = envs_in_words(study)
    height = middle + 80 + max(_PLOT + 60 + 22 * ((len(study["methods"]) - 1) // _NAMES), 40 + _PAIR * len(pairs))
    picture = Image.new("RGBA", (_WIDTH, height + 20 * len(said) + 12), "#ffffff")
    pen = ImageDraw.Draw(picture)
    envs = len(study["envs"])
    _write(pen, (16, 12), f"{envs} env{'s' * (envs != 1)}, normalized scores with 95 % intervals", size=17)
    for column, (name, head) in enumerate(zip(STATISTICS, HEADS[2:], strict=True)):
        _draw_statistic(pen, study, name, head, _LABEL + column * (_COLUMN + 20))
    middle += 12
    _write(pen, (16, middle + 24), "Performance profiles: share of runs above a normalized score", size=15)
    area = (60, middle + 56, 660, middle + 56 + _PLOT)
    for band in _bands(study, area):
        layer = Image.new("RGBA", picture.size)
        ImageDraw.Draw(layer).polygon(*band)
        picture.alpha_composite(layer)
    _draw_profiles(pen, study, area)
    _write(pen, (720, middle + 24), "Probability that a run of the first scores higher", size=15)
    for number, pair in enumerate(pairs):
        y = middle + 56 + number * _PAIR
        _write(pen, (720, y), f"{_short(pair['first'], 28)} / {_short(pair['second'], 28)}")
        _draw_interval(pen, pair["probability"], pair["probability_ci95"], (720, y + 18, 1160), _COLOURS[0])
        pen.line([(940, y + 22), (940, y + 42)], _FAINT)
    if pairs:
        bottom = middle + 56 + _PAIR * len(pairs)
        for value, x in ((0, 720), (0.5, 940), (1, 1160)):
            _write(pen, (x - 8, bottom - 4), f"{value:g}", _FAINT)
    for number, line in enumerate(said):
        _write(pen, (16, height + 20 * number), line, _FAINT)
    file = io.BytesIO()
    picture.convert("RGB").save(file, "PNG")
    return file.getvalue()


def envs_in_words(study: StudyDocument) -> list[str]:
    """Return lines that name the envs, with the scores that count as 0 and as 1, and those that were left out."""
    ranges = [f"{env}: {low:.4g} to {high:.4g}".replace(" ", _KEPT) for env, (low, high) in study["ranges"].items()]
    text = f"Normalized per env, so that these scores are 0 and 1: {'; '.join(ranges)}."
    if study["left_out"]:
        text += f" Left out, as a method has no run there: {', '.join(study['left_out'])}."
    lines = textwrap.wrap(text, _LINE, break_long_words=False, break_on_hyphens=False)
    return [line.replace(_KEPT, " ") for line in lines]


def _draw_statistic(pen: ImageDraw, study: StudyDocument, name: str, head: str, left: int) -> None:
    """Draw a column: the interval of each method, on one scale from 0, or the least, to 1 or the largest."""
    _write(pen, (left, 52), head, size=15)
    rows: list[Mapping[str, object]] = [dict(row) for row in study["methods"]]
    marks = [mark for row in rows for mark in _marks(row, name) if mark is not None]
    least, most = min([0.0, *marks]), max([1.0, *marks])
    bottom = _TOP + _ROW * len(rows)
    for number, row in enumerate(rows):
        y = _TOP + number * _ROW
        if name == "iqm":
            _write(pen, (16, y + 6), _short(str(row["method"]), 24))
        value, *ends = (None if mark is None else (mark - least) / (most - least) for mark in _marks(row, name))
        _draw_interval(pen, value, ends, (left, y, left + _COLUMN - 40), _COLOURS[number % len(_COLOURS)])
    for share in (0.0, 0.5, 1.0):
        words = f"{least + share * (most - least):.2g}"
        _write(pen, (left + share * (_COLUMN - 40) - 8, bottom + 2), words, _FAINT)


def _marks(row: Mapping[str, object], name: str) -> list[float | None]:
    """Return a statistic and the ends of its interval."""
    value, ends = row[name], row[f"{name}_ci95"]
    assert isinstance(ends, list)
    return [value if isinstance(value, float) else None, *ends]


def _draw_interval(
    pen: ImageDraw, value: float | None, ends: Sequence[float | None], place: tuple[int, int, int], colour: str
) -> None:
    """Draw a value between 0 and 1 as a mark in a bar that is its interval; `place` is left, top and right."""
    left, top, right = place
    pen.line([(left, top + 14), (right, top + 14)], _GRID)
    known = [end for end in ends if end is not None]
    if len(known) == 2:
        low, high = (left + end * (right - left) for end in known)
        pen.rectangle([low, top + 7, max(high, low + 1), top + 21], _pale(colour))
    if value is not None:
        x = left + value * (right - left)
        pen.line([(x, top + 4), (x, top + 24)], colour, 3)


def _bands(study: StudyDocument, area: _Area) -> Iterator[tuple[list[_Point], str]]:
    """Yield outline and translucent colour of each profile's interval: bands may cover each other."""
    for number, row in enumerate(study["methods"]):
        low, high = _ends(row["profile_low"]), _ends(row["profile_high"])
        if low and high:
            above, below = _curve(study, high, area), _curve(study, low, area)
            yield [*above, *reversed(below)], f"{_COLOURS[number % len(_COLOURS)]}38"


def _draw_profiles(pen: ImageDraw, study: StudyDocument, area: _Area) -> None:
    left, top, right, bottom = area
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - share * (bottom - top)
        pen.line([(left, y), (right, y)], _GRID)
        _write(pen, (left - 40, y - 8), f"{share:g}", _FAINT)
        words = f"{share * study['thresholds'][-1]:.2g}"
        _write(pen, (left + share * (right - left) - 3.5 * len(words), bottom + 6), words, _FAINT)
    for number, row in enumerate(study["methods"]):
        colour = _COLOURS[number % len(_COLOURS)]
        pen.line(_curve(study, row["profile"], area), colour, 3)
        across, down = number % _NAMES, number // _NAMES
        _write(pen, (left + 200 * across, bottom + 30 + 22 * down), _short(row["method"], 24), colour)


def _curve(study: StudyDocument, shares: Sequence[float], area: _Area) -> list[_Point]:
    left, top, right, bottom = area
    most = study["thresholds"][-1]
    return [
        (left + threshold / most * (right - left), bottom - share * (bottom - top))
        for threshold, share in zip(study["thresholds"], shares, strict=True)
    ]


def _ends(values: object) -> list[float]:
    return [value for value in values if value is not None] if isinstance(values, list) else []


def _write(pen: ImageDraw, place: tuple[float, float], text: str, colour: str = _INK, size: int = 14) -> None:
    from PIL import ImageFont

    pen.text(place, text, colour, ImageFont.load_default(size))


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _pale(colour: str) -> str:
    """Return the colour of an interval: a third of its mark's colour over white."""
    return "#" + "".join(f"{round(int(colour[at : at + 2], 16) / 3 + 170):02x}" for at in (1, 3, 5))
