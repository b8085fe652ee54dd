"""Pictures on a terminal: cells of two pixels, in as many colours as the terminal has."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.color import Color, ColorSystem
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from mosaic.core.errors import MosaicError
from mosaic.telemetry.frames.reader import Frame, Pictures, StreamState
from mosaic.telemetry.pictures.captions import from_line
from mosaic.telemetry.pictures.resize import Picture, as_rgb

_Styles: TypeAlias = Callable[[int, int], Style]

_UPPER = "▀"
_SHADES = " .:-=+*#%@"  # dark to bright, in characters that every terminal has
_LIGHT = np.array([0.299, 0.587, 0.114])
_STEPS = np.array([0, 95, 135, 175, 215, 255])  # levels of the colour cube of 256-colour terminals
_CUBE, _GREYS = 16, 232


class HalfBlocks:
    """Rich renderable of a picture: true colours, 256 or 16 of them, or shades made of letters where there are none."""

    def __init__(self, picture: Picture, most_columns: int | None = None, most_rows: int | None = None) -> None:
        self._picture = as_rgb(picture)
        self._most_columns, self._most_rows = most_columns, most_rows

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows, columns = self._cells(options.max_width)
        pixels = _shrunk(self._picture, columns, 2 * rows)
        if console.color_system is None or console.no_color:
            yield from _in_letters(pixels)
        elif console.color_system == "truecolor":
            yield from _in_colours(pixels.astype(np.int64) @ (1 << 16, 1 << 8, 1), _true_colours)
        else:
            yield from _in_colours(to_256(pixels), _colours_of_256 if console.color_system == "256" else _colours_of_16)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        _, columns = self._cells(options.max_width)
        return Measurement(columns, columns)

    def _cells(self, width: int) -> tuple[int, int]:
        most = width if self._most_columns is None else min(width, self._most_columns)
        return cells(self._picture.shape[0], self._picture.shape[1], most, self._most_rows)


def cells(height: int, width: int, most_columns: int, most_rows: int | None) -> tuple[int, int]:
    """Return rows and columns of cells, twice as high as wide, for a picture of this shape; at least one each."""
    columns = max(1, most_columns)
    rows = columns * height / width / 2
    if most_rows is not None and rows > most_rows:
        rows = max(1, most_rows)
        columns = min(columns, max(1, round(2 * rows * width / height)))
    return max(1, round(rows)), columns


def to_256(pixels: Picture) -> NDArray[np.int64]:
    """Return the numbers of the nearest colours of the cube or of the grey ramp."""
    rgb = pixels.astype(np.int64)
    cube = np.searchsorted((_STEPS[1:] + _STEPS[:-1]) / 2, rgb, side="right")
    ramp = np.clip(np.rint((rgb.mean(axis=-1) - 8) / 10), 0, 23).astype(np.int64)
    far = ((_STEPS[cube] - rgb) ** 2).sum(axis=-1)
    far_from_grey = ((ramp * 10 + 8)[..., None] - rgb) ** 2
    numbers = _CUBE + cube @ (36, 6, 1)
    nearest: NDArray[np.int64] = np.where(far_from_grey.sum(axis=-1) < far, _GREYS + ramp, numbers)
    return nearest


def _shrunk(picture: Picture, width: int, height: int) -> Picture:
    from PIL import Image

    small = width < picture.shape[1] or height < picture.shape[0]
    way = Image.Resampling.BOX if small else Image.Resampling.NEAREST
    return np.asarray(Image.fromarray(picture).resize((width, height), way))


def _in_letters(pixels: Picture) -> Iterator[Segment]:
    light = (pixels[::2].astype(float) + pixels[1::2]) @ _LIGHT / 2
    for row in np.minimum(light * len(_SHADES) / 255, len(_SHADES) - 1).astype(int).tolist():
        yield Segment("".join(_SHADES[shade] for shade in row))
        yield Segment.line()


def _in_colours(numbers: NDArray[np.int64], style: _Styles) -> Iterator[Segment]:
    """Yield segments; equal neighbours share one, so that flat pictures cost the terminal little."""
    for upper, lower in zip(numbers[::2], numbers[1::2], strict=True):
        changes = np.flatnonzero((np.diff(upper) != 0) | (np.diff(lower) != 0)) + 1
        starts = [0, *changes.tolist()]
        for start, end in zip(starts, [*starts[1:], len(upper)], strict=True):
            yield Segment(_UPPER * (end - start), style(int(upper[start]), int(lower[start])))
        yield Segment.line()


@lru_cache(maxsize=1 << 14)
def _true_colours(upper: int, lower: int) -> Style:
    return Style.from_color(_rgb(upper), _rgb(lower))


@lru_cache(maxsize=1 << 14)
def _colours_of_256(upper: int, lower: int) -> Style:
    return Style.from_color(Color.from_ansi(upper), Color.from_ansi(lower))


@lru_cache(maxsize=1 << 14)
def _colours_of_16(upper: int, lower: int) -> Style:
    """Return a style not used for other terminals: rich caches in a style how it looked on the first terminal."""
    upper_colour, lower_colour = (Color.from_ansi(number).downgrade(ColorSystem.STANDARD) for number in (upper, lower))
    return Style.from_color(upper_colour, lower_colour)


def _rgb(number: int) -> Color:
    return Color.from_rgb(number >> 16, number >> 8 & 255, number & 255)


WORDS: dict[StreamState, str] = {
    "waiting": "no picture yet",
    "live": "live",
    "stalled": "stalled: nothing new is shown",
    "finished": "finished: no more pictures will come",
    "writer died": "the process that drew it has died",
}
_plain = Console(color_system=None)  # needed to wrap text
_STYLES: dict[StreamState, str] = {"live": "green", "stalled": "yellow", "writer died": "red"}


class PicturePane:
    def __init__(self, pictures: Pictures, frame: Frame | None = None) -> None:
        """Show `pictures`, starting with `frame`, if one was taken before."""
        self._pictures, self._frame = pictures, frame
        self._complaint = ""
        self.waiting = WORDS["waiting"]  # what is said until there is a picture

    @property
    def has_picture(self) -> bool:
        return self._frame is not None

    def look(self) -> None:
        """Take the newest frame; an error is shown in place of the picture, and the curve beside it continues."""
        try:
            self._frame = self._pictures.newest() or self._frame
        except MosaicError as error:
            self._complaint = str(error)

    def close(self) -> None:
        self._pictures.close()

    def render(self, columns: int, rows: int) -> RenderableType:
        state = self._pictures.state
        said = self.waiting if state == "waiting" else WORDS[state]
        line = Text(self._complaint or said, style="red" if self._complaint else _STYLES.get(state, "dim"))
        if self._frame is None:
            return line
        below = [_facts(self._frame), line]
        lines = sum(len(text.wrap(_plain, columns)) for text in below)
        return Group(HalfBlocks(self._frame.pixels, columns, max(1, rows - lines)), *below)


def _facts(frame: Frame) -> Text:
    """Return a line such as `env 0 · episode 3 · step 1,200 · red_0 1.5 · red_1 -2`."""
    parts = [f"env {frame.env}", f"episode {frame.episode:,}", f"step {frame.step:,}"]
    return Text(" · ".join([*parts, *(f"{name} {value}".strip() for name, value in from_line(frame.agent, frame.ret))]))
