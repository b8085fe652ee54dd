"""Cells of the training form: a heading per section, and each setting with a mark and its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from rich.text import Text

if TYPE_CHECKING:
    from mosaic.ui.tui.train.form import FormRow

HEADING = "#"  # prefix of the keys of headings
_TITLE = 26  # cells of a setting's name


def form_cells(rows: Iterable[FormRow], passes: Callable[..., bool], width: int) -> dict[str, tuple[Text, Text]]:
    """Return the cells of the rows that a filter lets through; a mark tells what is changed (•) or invalid (✗)."""
    cells: dict[str, tuple[Text, Text]] = {}
    section = ""
    for row in rows:
        if not passes(row.title, row.key, row.value, row.section):
            continue
        if row.section != section:
            section = row.section
            cells[f"{HEADING}{section}"] = (Text(section, "bold #2dbfab"), Text(""))
        colour = "#ef6f6c" if row.problem else "#d9cf6a" if row.changed else ""
        sign = "✗" if row.problem else "•" if row.changed else " "
        title, value = Text.assemble((f"{sign} ", colour), row.title), Text(row.value, colour)
        title.truncate(_TITLE, overflow="ellipsis")
        value.truncate(width, overflow="ellipsis")
        cells[row.key] = (title, value)
    return cells
