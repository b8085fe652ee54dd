"""Tables whose rows have keys, and that keep the cursor where it was when they are filled again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from rich.text import Text
from textual.binding import Binding, BindingType
from textual.widgets import DataTable
from textual.widgets.data_table import ColumnKey

Cells = Sequence[str | Text]


class KeyedTable(DataTable[str | Text]):
    """Table of rows by key; left and right change tabs, as everywhere, Home and End go to the first and last row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "app.step_tab(-1)", show=False),
        Binding("right", "app.step_tab(1)", show=False),
        Binding("home", "scroll_top", show=False),
        Binding("end", "scroll_bottom", show=False),
        Binding("enter", "app.open", "Open", key_display="⏎"),
    ]

    def __init__(self, columns: Sequence[str], *, id: str) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=False, cell_padding=1)
        self._names = list(columns)
        self._filled: dict[str, tuple[str | Text, ...]] = {}

    def on_mount(self) -> None:
        for name in self._names:
            self.add_column(name, key=name)

    @property
    def selected(self) -> str | None:
        """Return the key of the row under the cursor."""
        if not self.row_count:
            return None
        return self.coordinate_to_cell_key(self.cursor_coordinate).row_key.value

    def fill(self, rows: Mapping[str, Cells]) -> None:
        """Show these rows; where only their cells differ, the cursor and the scroll position stay."""
        wanted = {key: tuple(cells) for key, cells in rows.items()}
        if wanted == self._filled:
            return
        if list(wanted) == list(self._filled):
            for key, cells in wanted.items():
                self._update_row(key, cells)
        else:
            selected = self.selected
            self.clear()
            for key, cells in wanted.items():
                self.add_row(*cells, key=key)
            if selected in wanted:
                self.move_cursor(row=self.get_row_index(selected), animate=False)
        self._filled = wanted
        self._set_widths()
        self.call_later(self.check_idle)  # the height is measured when the table itself has nothing left to do

    def _set_widths(self) -> None:
        """Fit the columns at once: a cell that is drawn before Textual has measured its column stays cut off."""
        for place, name in enumerate(self._names):
            cells = (Text.from_markup(cell) if isinstance(cell, str) else cell for cell in self._column(place))
            self.columns[ColumnKey(name)].content_width = max(cell.cell_len for cell in cells)

    def _column(self, place: int) -> list[str | Text]:
        return [self._names[place], *(cells[place] for cells in self._filled.values())]

    def _update_row(self, key: str, cells: Iterable[str | Text]) -> None:
        for name, now, before in zip(self._names, cells, self._filled[key], strict=True):
            if now != before:
                self.update_cell(key, name, now, update_width=True)
