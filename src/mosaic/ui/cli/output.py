"""Results, errors, progress and line charts on the terminal."""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from typing import Literal, Protocol

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

LINE_EVERY_S = 5.0  # between lines of progress where there is no terminal
_NUMBER = re.compile(r"[-+−]?\d[\d.,_:e+-]*")


def complain(text: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)


def note(text: str) -> None:
    """Print information that is not a result."""
    err.print(Text(text, style="dim"), soft_wrap=True)


def print_json(document: object) -> None:
    """Print a whole document or nothing of it; numbers that are not finite, which JSON does not have, are null."""
    sys.stdout.write(json.dumps(_finite(document), ensure_ascii=False, allow_nan=False) + "\n")


def _finite(document: object) -> object:
    match document:
        case float():
            return document if math.isfinite(document) else None
        case dict():
            return {key: _finite(part) for key, part in document.items()}
        case list() | tuple():
            return [_finite(part) for part in document]
    return document


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], numbers: Sequence[str] = (), whole: int = 2
) -> None:
    """Print a table; `numbers` names the columns that are right-aligned.

    These, the first `whole` columns and numbers anywhere are never broken or cut: where a terminal is too narrow for
    that, each row becomes a block of lines.
    """
    texts = [[cell if isinstance(cell, Text) else Text(str(cell)) for cell in row] for row in rows]
    unbroken = [index < whole or column in numbers for index, column in enumerate(columns)]
    widths = [
        max([len(column), *(_least_width(row[index], unbroken[index]) for row in texts)])
        for index, column in enumerate(columns)
    ]
    if rows and sum(widths) + 2 * len(columns) > out.width:
        _print_blocks(title, columns, texts)
        return
    table = Table(title=title, title_justify="left", header_style="bold", title_style="bold", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        table.add_column(column, justify=justify, overflow="fold", no_wrap=unbroken[index], min_width=widths[index])
    for cells in texts:
        table.add_row(*cells)
    wanted = out.measure(table, options=out.options.update(max_width=1000)).maximum
    if wanted > out.width:  # save space between columns before wrapping words
        table.pad_edge, table.collapse_padding = False, True
    out.print(table)


def shorten(rows: Sequence[list[str]], columns: Sequence[str], least: Sequence[tuple[str, int]]) -> bool:
    """Shorten cells in their middle until a table of these rows fits the terminal; return whether it does.

    `least` names columns that may lose letters, and how many must stay: the second loses some only where it is not
    enough that the first has lost all it may, and so on. Where nothing helps, the cells stay as they are.
    """
    widths = [max([len(column), *(cell_len(row[at]) for row in rows)]) for at, column in enumerate(columns)]
    wanted = dict(zip(columns, widths, strict=True))
    for column, letters in least:
        over = sum(wanted.values()) + 2 * len(columns) - out.width
        wanted[column] -= max(0, min(over, wanted[column] - max(letters, len(column))))
    if sum(wanted.values()) + 2 * len(columns) > out.width:
        return False
    for row in rows:
        row[:] = [middle_out(cell, wanted[column]) for column, cell in zip(columns, row, strict=True)]
    return True


def middle_out(text: str, letters: int) -> str:
    """Return a text in at most this many letters; its beginning and its end tell it from others."""
    if len(text) <= letters:
        return text
    tail = (letters - 1) // 2
    return f"{text[: letters - 1 - tail]}…{text[len(text) - tail :]}"


def _least_width(cell: Text, unbroken: bool) -> int:
    """Return the columns a cell needs: all of its longest line, or its longest number where words may be wrapped."""
    parts = cell.plain.splitlines() if unbroken else _NUMBER.findall(cell.plain)
    return max(map(cell_len, parts), default=0)


def _print_blocks(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text]]) -> None:
    """Print each row as lines `column  value`; long values are wrapped below themselves."""
    out.print(Text(title, style="bold"))
    for row in rows:
        block = Table.grid(padding=(0, 2, 0, 0))
        block.add_column(style="dim", no_wrap=True)
        block.add_column(overflow="fold")
        for column, cell in zip(columns, row, strict=True):
            block.add_row(column or " ", cell)
        out.print()
        out.print(block)
    out.print()


class Tick(Protocol):
    def __call__(self, *_: object) -> None: ...


@contextmanager
def progress(what: str, total: int, *, hint: str = "", shown: bool = True) -> Iterator[Tick]:
    """Show a progress bar with a hint on stderr until the work is done; call the yielded function once per step.

    Where stderr is not a terminal, a plain line is printed every few seconds instead.
    """
    if not shown:
        yield lambda *_: None
        return
    if not err.is_terminal:
        yield _ticked_lines(what, total)
        return
    columns = (SpinnerColumn(), TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn(hint, style="dim"), console=err, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda *_: bar.advance(task)


class Throttle:
    """Timer for a series of lines, at most one per interval."""

    def __init__(self, every_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._every_s, self._clock = every_s, clock
        self._next_s = clock() + every_s

    def due(self) -> bool:
        now_s = self._clock()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + self._every_s
        return True


def _ticked_lines(what: str, total: int) -> Tick:
    pace, done = Throttle(LINE_EVERY_S), 0

    def tick(*_: object) -> None:
        nonlocal done
        done += 1
        if pace.due():
            note(f"{what}: {done:,} of {total:,}")

    return tick


def short(number: float) -> str:
    """Return a number as `20.0 M`, `12.3 k` or `700`: three digits are enough in a table."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return f"{number:.0f}"


def interval(mean: float | None, bounds: Sequence[float | None] | None, digits: int = 3) -> str:
    """Return `-12.3 [-14.0, -10.6]`, or the mean alone where one sample gives no interval."""
    if mean is None:
        return "–"
    if not bounds or bounds[0] is None or bounds[1] is None:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"


_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))  # column, row from the top


def chart(xs: Sequence[float | None], ys: Sequence[float | None], width: int, height: int) -> list[str]:
    """Return a line chart in braille characters, two by four points per cell, as lines of text.

    The scale is at the left and below; there are gaps where a number is unknown.
    """
    points = [(x, y) for x, y in zip(xs, ys, strict=True) if x is not None and y is not None and math.isfinite(y)]
    if not points:
        return ["(nothing to draw yet)"]
    low, high = min(y for _, y in points), max(y for _, y in points)
    first, last = points[0][0], points[-1][0]
    labels = [f"{value:.4g}" for value in (high, low)]
    margin = max(map(len, labels)) + 1
    columns, rows = max(1, width - margin - 1), max(1, height - 2)
    cells = [[0] * columns for _ in range(rows)]
    earlier: tuple[int, int] | None = None
    for x, y in points:
        place = _place(x, first, last, 2 * columns), 4 * rows - 1 - _place(y, low, high, 4 * rows)
        for column, row in _line(earlier or place, place):
            cells[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
        earlier = place
    lines = []
    for index, row_cells in enumerate(cells):
        label = labels[0] if index == 0 else labels[1] if index == rows - 1 else ""
        lines.append(f"{label:>{margin - 1}} │" + "".join(chr(0x2800 + cell) for cell in row_cells))
    lines.append(" " * margin + "└" + "─" * columns)
    start, end = f"{first:,.0f}", f"{last:,.0f}"
    lines.append(" " * (margin + 1) + start + end.rjust(max(0, columns - len(start))))
    return lines


def _place(value: float, low: float, high: float, count: int) -> int:
    return 0 if high == low else min(count - 1, int((value - low) / (high - low) * count))


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]), 1)
    return [
        (round(start[0] + (end[0] - start[0]) * i / steps), round(start[1] + (end[1] - start[1]) * i / steps))
        for i in range(steps + 1)
    ]
