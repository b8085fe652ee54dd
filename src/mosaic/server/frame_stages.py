"""What can be looked at through a WebSocket: a run, or what is played now and is none."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from mosaic.server.ending import final_state
from mosaic.store.live_sessions import Show, ShowPictures
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.telemetry.frames.requests import Wish
from mosaic.telemetry.pictures.live import LivePictures, Pictures


class Stage(Protocol):
    """Equal ones are the same."""

    def pictures(self, wish: Wish) -> Pictures: ...

    def end(self) -> str | None:
        """How it ended, in the words for a run; None while it goes on."""
        ...


@dataclass(frozen=True, slots=True)
class RunStage:
    folder: RunFolder

    def pictures(self, wish: Wish) -> Pictures:
        return LivePictures(self.folder.path, wish)

    def end(self) -> str | None:
        return final_state(self.folder)


@dataclass(frozen=True, slots=True)
class ShowStage:
    show: Show

    def pictures(self, wish: Wish) -> Pictures:
        return ShowPictures(self.show, wish)

    def end(self) -> str | None:
        return None if self.show.is_on() else State.FINISHED
