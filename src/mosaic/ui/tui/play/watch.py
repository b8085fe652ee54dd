"""Pictures of a game that is played elsewhere: a match, an evaluation, a game in another terminal."""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.markup import escape
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

from mosaic.ui.tui.reader import Reader, Reading

if TYPE_CHECKING:
    from mosaic.telemetry.frames.reader import Pictures
    from mosaic.ui.cli.pictures import PicturePane

_EVERY_S = 0.25


class WatchPane(Vertical):
    can_focus = True

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._pane: PicturePane | None = None
        self._looking = Lock()  # pictures are not closed while the reader looks at them
        self._reader: Reader[RenderableType | None] = Reader(self, self._read, self._show, self._tell, every_s=_EVERY_S)

    def compose(self) -> ComposeResult:
        yield Static("", id="watch-head")
        yield Static("", id="watch-picture")
        yield Static("[b]esc[/b] back", classes="hint")

    def show(self, pictures: Pictures, env: str) -> None:
        """Show these pictures until `leave` is called."""
        from mosaic.ui.cli.pictures import PicturePane

        self.leave()
        self._pane = PicturePane(pictures)
        self._tell(env)
        self._reader.start()
        self._reader.again()

    def leave(self) -> None:
        pane, self._pane = self._pane, None
        self._reader.rest()
        if pane is not None:
            with self._looking:
                pane.close()

    def on_unmount(self) -> None:
        self.leave()
        self._reader.stop()

    def on_reading(self, event: Reading) -> None:
        event.stop()
        event.reader.deliver()

    def _read(self) -> RenderableType | None:
        with self._looking:
            if self._pane is None:
                return None
            size = self.query_one("#watch-picture").size
            self._pane.look()
            return self._pane.render(max(1, size.width), max(1, size.height))

    def _show(self, picture: RenderableType | None) -> None:
        if picture is not None:
            self.query_one("#watch-picture", Static).update(picture)

    def _tell(self, text: str) -> None:
        self.query_one("#watch-head", Static).update(f"[b]{escape(text)}[/b] · you watch")
