"""Cells of the training form: a heading per section, and each setting with a mark and its value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from rich.text import Text
from textual.coordinate import Coordinate

from mosaic.ui.tui.widgets.tables import Cells, KeyedTable

if TYPE_CHECKING:
    from mosaic.ui.tui.train.form import FormRow

HEADING = "#"  # prefix of the keys of headings
ADVANCED = f"{HEADING}advanced"  # a heading that can be opened
_TITLE = 26  # cells of a setting's name


class FormTable(KeyedTable):
    """Table of settings whose cursor passes over headings."""

    def validate_cursor_coordinate(self, value: Coordinate) -> Coordinate:
        value = super().validate_cursor_coordinate(value)
        keys = [str(row.key.value) for row in self.ordered_rows]
        below = range(value.row, len(keys))
        above = range(min(value.row, len(keys) - 1), -1, -1)
        first, then = (above, below) if value.row < self.cursor_row else (below, above)
        found = (row for row in (*first, *then) if keys[row] == ADVANCED or not keys[row].startswith(HEADING))
        return Coordinate(next(found, value.row), value.column)

    def fill(self, rows: Mapping[str, Cells]) -> None:
        super().fill(rows)
        self.move_cursor(row=self.cursor_row, animate=False, scroll=False)


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
