"""Chart widget: a plot, drawn again only when it or its size changes."""

from __future__ import annotations

from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from mosaic.ui.tui.charts.drawing import draw
from mosaic.ui.tui.charts.plot import Plot


class Chart(Widget):
    DEFAULT_CSS = "Chart { height: 1fr; width: 1fr; }"

    def __init__(self, plot: Plot, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._plot = plot
        self._strips: list[Strip] = []
        self._drawn_for: Size | None = None  # None: the plot is another one

    @property
    def plot(self) -> Plot:
        return self._plot

    def show(self, plot: Plot) -> None:
        if plot is not self._plot:
            self._plot, self._drawn_for = plot, None
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if self._drawn_for != self.size:
            self._strips = draw(self._plot, self.size.width, self.size.height)
            self._drawn_for = self.size
        return self._strips[y] if y < len(self._strips) else Strip.blank(self.size.width)
