"""How results, errors and progress look on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, Protocol

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)


def complain(text: str) -> None:
    err.print(Text.assemble(("error: ", "bold red"), text), soft_wrap=True)


def note(text: str) -> None:
    """Something worth knowing that is no result."""
    err.print(Text(text, style="dim"), soft_wrap=True)


def print_json(document: Any) -> None:
    json.dump(document, sys.stdout, ensure_ascii=False, allow_nan=False)
    sys.stdout.write("\n")


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Any]], numbers: Sequence[str] = (), whole: int = 2
) -> None:
    """`numbers` names the columns that are set flush right; they and the first `whole` columns are never broken."""
    table = Table(title=title, title_justify="left", header_style="bold", title_style="bold", box=SIMPLE_HEAD)
    for index, column in enumerate(columns):
        justify: Literal["left", "right"] = "right" if column in numbers else "left"
        unbroken = index < whole or column in numbers
        table.add_column(column, justify=justify, overflow="fold", no_wrap=unbroken, min_width=len(column))
    for row in rows:
        table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row))
    wanted = out.measure(table, options=out.options.update(max_width=1000)).maximum
    if wanted > out.width:  # room for words before room between them
        table.pad_edge, table.collapse_padding = False, True
    out.print(table)


class Tick(Protocol):
    def __call__(self, *_: Any) -> None: ...


@contextmanager
def progress(what: str, total: int, *, hint: str = "", shown: bool = True) -> Iterator[Tick]:
    """A bar on stderr, with a hint behind it, gone when the work is done; the yielded function counts one."""
    if not shown or not err.is_terminal:
        yield lambda *_: None
        return
    columns = (SpinnerColumn(), TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn(hint, style="dim"), console=err, transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda *_: bar.advance(task)


def short(number: float) -> str:
    """`20.0 M`, `12.3 k`, `700`: three digits are enough in a table."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.1f} {letter}"
    return f"{number:.0f}"


def interval(mean: float | None, bounds: Sequence[float | None] | None, digits: int = 3) -> str:
    """`-12.3 [-14.0, -10.6]`, or the mean alone where one sample gives no interval."""
    if mean is None:
        return "–"
    if not bounds or bounds[0] is None or bounds[1] is None:
        return f"{mean:.{digits}f}"
    return f"{mean:.{digits}f} [{bounds[0]:.{digits}f}, {bounds[1]:.{digits}f}]"
