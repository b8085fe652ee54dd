"""The newest picture on the terminal, with who is in it and how its writer is."""

from __future__ import annotations

from rich.console import Console, Group, RenderableType
from rich.text import Text

from mosaic.core.errors import MosaicError
from mosaic.telemetry.frames.reader import Frame, LaneState
from mosaic.telemetry.pictures.labels import from_line
from mosaic.telemetry.pictures.live import Pictures
from mosaic.ui.cli.pictures import HalfBlocks

WORDS: dict[LaneState, str] = {
    "waiting": "no picture yet",
    "live": "live",
    "stalled": "stalled: nothing new is shown",
    "finished": "finished: no more pictures will come",
    "writer died": "the process that drew has died",
}
_plain = Console(color_system=None)  # wrapping text needs one
_STYLES: dict[LaneState, str] = {"live": "green", "stalled": "yellow", "writer died": "red"}


class PicturePane:
    def __init__(self, pictures: Pictures, frame: Frame | None = None) -> None:
        """`frame`: one that was taken before."""
        self._pictures, self._frame = pictures, frame
        self._complaint = ""

    @property
    def has_picture(self) -> bool:
        return self._frame is not None

    def look(self) -> None:
        """Takes what is new. What goes wrong is shown where the picture would be: the curve beside it goes on."""
        try:
            self._frame = self._pictures.newest() or self._frame
        except MosaicError as error:
            self._complaint = str(error)

    def render(self, columns: int, rows: int) -> RenderableType:
        state = self._pictures.state
        line = Text(self._complaint or WORDS[state], style="red" if self._complaint else _STYLES.get(state, "dim"))
        if self._frame is None:
            return line
        below = [_facts(self._frame), line]
        lines = sum(len(text.wrap(_plain, columns)) for text in below)
        return Group(HalfBlocks(self._frame.pixels, columns, max(1, rows - lines)), *below)


def _facts(frame: Frame) -> Text:
    """`env 0 · episode 3 · step 1,200 · red_0 1.5 · red_1 -2`"""
    parts = [f"env {frame.env}", f"episode {frame.episode:,}", f"step {frame.step:,}"]
    return Text(" · ".join([*parts, *(f"{name} {value}".strip() for name, value in from_line(frame.agent, frame.ret))]))
