"""Picture of a grid world's table: values as colours, best actions as arrows, on the terminal or as an image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from mosaic.core.errors import InputError
from mosaic.envs.compiled.mdp.gridworld import GridLayout
from mosaic.learners.tabular.experience import Values

if TYPE_CHECKING:
    from rich.text import Text

Colour: TypeAlias = tuple[int, int, int]

ARROWS = {"left": "←", "down": "↓", "right": "→", "up": "↑"}
UNDECIDED = "·"  # all actions are equally good, or nothing was learned here
_STEPS = {"←": (-1, 0), "↓": (0, 1), "→": (1, 0), "↑": (0, -1)}  # right, down
_SCALE: tuple[Colour, ...] = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_FIXED: dict[str, Colour] = {"G": (134, 239, 172), "H": (51, 65, 85), "#": (120, 113, 108)}
_BLACK, _WHITE = (15, 23, 42), (248, 250, 252)


class Cell(NamedTuple):
    letter: str  # of the map
    value: float | None  # of the best action; None where no action is taken: goals, holes, walls
    arrows: str  # of all best actions; UNDECIDED where all are equally good
    colour: Colour

    @property
    def mark(self) -> str:
        start = "S" if self.letter == "S" else ""
        return self.letter if self.value is None else start + self.arrows

    @property
    def number(self) -> str:
        """Value in at most six characters for usual values, so that twelve cells fit a terminal."""
        if self.value is None:
            return ""
        size = abs(self.value)
        return f"{self.value:.2f}" if size < 9.995 else f"{self.value:.1f}" if size < 999.95 else f"{self.value:.3g}"

    @property
    def ink(self) -> Colour:
        red, green, blue = self.colour
        return _BLACK if 0.299 * red + 0.587 * green + 0.114 * blue > 140 else _WHITE


def read_cells(values: Values, layout: GridLayout) -> list[list[Cell]]:
    """Return the grid row by row; colours range from the lowest to the highest value of cells with actions."""
    rows, columns = len(layout.grid), len(layout.grid[0])
    if values.shape != (rows * columns, len(layout.directions)):
        raise InputError(
            f"The table is {' × '.join(map(str, values.shape))}, but a grid of {rows} × {columns} cells with "
            f"{len(layout.directions)} actions needs {rows * columns} × {len(layout.directions)}."
        )
    best = values.max(axis=1).reshape(rows, columns)
    letters = np.array([list(row) for row in layout.grid])
    decided = ~np.isin(letters, list(_FIXED))
    low, high = (float(best[decided].min()), float(best[decided].max())) if decided.any() else (0.0, 0.0)

    def cell(r: int, c: int) -> Cell:
        letter, value = layout.grid[r][c], float(best[r, c])
        if letter in _FIXED:
            return Cell(letter, None, "", _FIXED[letter])
        share = (value - low) / (high - low) if high > low else 0.5
        return Cell(letter, value, _arrows(values[r * columns + c], layout.directions), shade(share))

    return [[cell(r, c) for c in range(columns)] for r in range(rows)]


def shade(share: float) -> Colour:
    """Return a colour from dark for 0 to bright for 1."""
    place = min(max(share, 0.0), 1.0) * (len(_SCALE) - 1)
    lower = min(int(place), len(_SCALE) - 2)
    part = place - lower
    red, green, blue = (round(a + part * (b - a)) for a, b in zip(_SCALE[lower], _SCALE[lower + 1], strict=True))
    return red, green, blue


def grid_text(cells: list[list[Cell]], width: int | None = None) -> Text:
    """Render for a terminal; numbers are left out where they would not fit into `width` columns."""
    from rich.text import Text

    every = [cell for row in cells for cell in row]
    narrow = max(len(cell.mark) for cell in every) + 2
    wide = max(narrow, max(len(cell.number) for cell in every) + 1)
    numbers = width is None or wide * len(cells[0]) <= width
    side = wide if numbers else narrow
    text = Text(no_wrap=True)
    for row in cells:
        lines = [[cell.mark for cell in row], *([[cell.number for cell in row]] if numbers else [])]
        for line in lines:
            for cell, words in zip(row, line, strict=True):
                text.append(words.center(side), f"{_rgb(cell.ink)} on {_rgb(cell.colour)}")
            text.append("\n")
    text.rstrip()
    return text


def grid_image(cells: list[list[Cell]]) -> Image.Image:
    """Draw one square for each cell: an arrow for every best action, the value below."""
    rows, columns = len(cells), len(cells[0])
    side = max(16, min(80, 1600 // max(rows, columns)))
    picture = Image.new("RGB", (columns * side + 1, rows * side + 1), _WHITE)
    pen = ImageDraw.Draw(picture)
    letters, numbers = (ImageFont.load_default(size) for size in (side * 0.3, side * 0.18))
    for r, row in enumerate(cells):
        for c, cell in enumerate(row):
            left, top = c * side, r * side
            pen.rectangle((left, top, left + side, top + side), fill=cell.colour, outline=_WHITE)
            middle = (left + side / 2, top + side / 2)
            if cell.value is None:
                pen.text(middle, cell.letter, fill=cell.ink, font=letters, anchor="mm")
                continue
            if cell.letter == "S":
                pen.text((left + side * 0.06, top + side * 0.04), "S", fill=cell.ink, font=numbers, anchor="la")
            for shape in _shapes(cell.arrows, left + side / 2, top + side * 0.42, side * 0.26):
                pen.polygon(shape, fill=cell.ink)
            if side >= 40:
                pen.text((left + side / 2, top + side * 0.94), cell.number, fill=cell.ink, font=numbers, anchor="md")
    return picture


def _rgb(colour: Colour) -> str:
    return "rgb({},{},{})".format(*colour)


def _arrows(row: Values, directions: tuple[str, ...]) -> str:
    best = np.flatnonzero(row == row.max())
    return UNDECIDED if len(best) == len(row) else "".join(ARROWS[directions[action]] for action in best)


def _shapes(arrows: str, x: float, y: float, length: float) -> Iterator[list[tuple[float, float]]]:
    """Yield polygons of arrows from one point; a small square where there is no direction."""
    if arrows == UNDECIDED:
        half = length * 0.12
        yield [(x - half, y - half), (x + half, y - half), (x + half, y + half), (x - half, y + half)]
        return
    outline = ((0.0, 0.09), (0.6, 0.09), (0.6, 0.32), (1.0, 0.0), (0.6, -0.32), (0.6, -0.09), (0.0, -0.09))
    centred = len(arrows) == 1
    for arrow in arrows:
        right, down = _STEPS[arrow]
        ahead = [((along * 2 - 1 if centred else along) * length, aside * length * (1.5 if centred else 1.0))
                 for along, aside in outline]  # fmt: skip
        yield [(x + right * a - down * b, y + down * a + right * b) for a, b in ahead]
