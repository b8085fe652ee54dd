"""The newest picture of what is played now and is no run."""

from __future__ import annotations

from mosaic.store.live_sessions import Show
from mosaic.telemetry.frames.reader import Frame, LaneState
from mosaic.telemetry.frames.requests import Wish
from mosaic.telemetry.pictures.live import LivePictures


class ShowPictures:
    """Writers may follow one another, in this process and that; the end is the show's own."""

    def __init__(self, show: Show, wish: Wish) -> None:
        self._show = show
        self._pictures = LivePictures(show.path, wish)

    def newest(self) -> Frame | None:
        self._show.ask()
        return self._pictures.newest()

    @property
    def state(self) -> LaneState:
        is_on, state = self._show.is_on(), self._pictures.state
        if is_on:
            return "waiting" if state in ("finished", "writer died") else state
        return "writer died" if state == "writer died" else "finished"

    def close(self) -> None:
        self._pictures.close()
