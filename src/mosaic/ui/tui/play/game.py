"""Game on the screen: its board, picture or text, its players and choices, and the keys that play it."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from rich.console import RenderableType
from rich.markup import escape
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Key, Resize
from textual.message import Message
from textual.timer import Timer
from textual.widgets import Static

from mosaic.ui.tui.play.board import draw_board, moved, name_of
from mosaic.ui.tui.play.connection import MatchConnection
from mosaic.ui.tui.play.game_keys import HOLD_S, GameKey, game_keys, legend
from mosaic.ui.tui.play.side import head_line, side_text
from mosaic.ui.tui.play.view import CellPlace, MatchView, centre, spot_of

if TYPE_CHECKING:
    from mosaic.telemetry.frames.reader import Frame

_ARROWS = ("up", "down", "left", "right")


class NewsArrived(Message):
    """Message that a match has sent something."""


class GamePane(Vertical):
    """One match on the screen. Keys of the game are taken while it has the focus; all others keep their meaning."""

    BINDINGS: ClassVar[list[BindingType]] = []
    can_focus = True

    class Refused(Message):
        """Message with the reason why an action was not taken."""

        def __init__(self, text: str) -> None:
            super().__init__()
            self.text = text

    class Over(Message):
        """Message that the match sends no more."""

        def __init__(self, reason: str) -> None:
            super().__init__()
            self.reason = reason

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self.match: MatchConnection | None = None
        self.view: MatchView | None = None
        self._frame: Frame | None = None
        self._cursor: CellPlace = (0, 0)
        self._chosen = 0  # in the list of choices
        self._held: dict[str, Timer] = {}  # keys of a real-time game, by code

    def compose(self) -> ComposeResult:
        yield Static("", id="game-head")
        with Horizontal():
            yield Static("", id="game-picture")
            yield Static("", id="game-side")
        yield Static("", id="game-legend")

    def attach(self, match: MatchConnection, env: str) -> None:
        """Show this match from now on."""
        self.match, self.view, self._frame = match, None, None
        self._cursor, self._chosen = (0, 0), 0
        self.query_one("#game-head", Static).update(f"[dim]Opening {escape(env)} …[/]")
        for name in ("#game-picture", "#game-side", "#game-legend"):
            self.query_one(name, Static).update("")

    def on_unmount(self) -> None:
        if self.match is not None:
            self.match.leave(end=False)

    def detach(self) -> None:
        self._release()
        self.match = None

    # What arrives

    def on_news_arrived(self) -> None:
        match = self.match
        if match is None:
            return
        update = match.take()
        if update.view is not None:
            self._show(update.view)
        if update.frame is not None:
            self._frame = update.frame
            self._draw()
            wait_s = match.until_next_picture_s()
            if wait_s > 0:
                self.set_timer(wait_s, lambda: match.send("seen"))
            else:
                match.send("seen")
        for text in update.refusals:
            self.post_message(self.Refused(text))
        if update.over:
            self.post_message(self.Over(update.over))

    def _show(self, view: MatchView) -> None:
        first = self.view is None
        self.view = view
        if first and view.board:
            self._cursor = (len(view.board) // 2, len(view.board[0]) // 2)
        self._chosen = min(self._chosen, max(0, len(view.listed) - 1))
        self.query_one("#game-head", Static).update(head_line(view))
        self.query_one("#game-legend", Static).update(escape(legend(view)))
        self._draw()
        self._draw_side()

    def on_resize(self, event: Resize) -> None:
        self._draw()
        self._draw_side()

    def _draw(self) -> None:
        if self.view is not None:
            place = self.query_one("#game-picture", Static)
            place.update(self._picture(self.view, max(1, place.size.width), max(1, place.size.height)))

    def _picture(self, view: MatchView, width: int, height: int) -> RenderableType:
        if view.board:
            return draw_board(view, self._cursor if view.plays else None, width, height)
        if view.text:
            return Text(view.text)
        if self._frame is not None:
            from mosaic.ui.cli.pictures import HalfBlocks

            return HalfBlocks(self._frame.pixels, width, height)
        return Text(view.note or "The picture is being drawn …", "#7d8794")

    def _draw_side(self) -> None:
        if self.view is not None:
            side = self.query_one("#game-side", Static)
            side.update(side_text(self.view, self._chosen, max(1, side.size.height)))

    # Keys

    def on_key(self, event: Key) -> None:
        """Take the keys of the game; those of the app pass on to it."""
        view, match = self.view, self.match
        if match is None or (view is not None and not view.plays):
            return
        if view is None or view.phase != "playing":
            if event.key in _ARROWS or (view is not None and event.key in game_keys(view)):
                event.stop()  # a key that is still held when the game ends must not leave it
            return
        known = game_keys(view).get(event.key)
        if known is not None:
            self._press(match, known, view.real_time)
        elif not view.real_time and event.key in _ARROWS:
            self._move(view, event.key)
        elif not view.real_time and event.key in ("enter", "space"):
            self._choose(view, match)
        elif not event.key.isdigit() and event.key not in _ARROWS:  # these must not leave the game by mistake
            return
        event.stop()
        event.prevent_default()

    def _press(self, match: MatchConnection, key: GameKey, real_time: bool) -> None:
        match.send("key", code=key.code, key=key.character, down=True)
        if not real_time:
            match.send("key", code=key.code, key=key.character, down=False)
            return
        if key.code in self._held:
            self._held[key.code].stop()
        self._held[key.code] = self.set_timer(HOLD_S, lambda: self._let_go(match, key.code))

    def _let_go(self, match: MatchConnection, code: str) -> None:
        self._held.pop(code, None)
        match.send("key", code=code, down=False)

    def _release(self) -> None:
        for code, timer in list(self._held.items()):
            timer.stop()
            if self.match is not None:
                self._let_go(self.match, code)

    def _move(self, view: MatchView, key: str) -> None:
        if view.board:
            self._cursor = moved(view, self._cursor, key)
            self._draw()
        elif view.listed and key in ("up", "down"):
            self._chosen = (self._chosen + (1 if key == "down" else -1)) % len(view.listed)
            self._draw_side()

    def _choose(self, view: MatchView, match: MatchConnection) -> None:
        if not view.board:
            if view.listed:
                match.send("press", spot=view.listed[self._chosen].id)
            else:
                self.post_message(self.Refused(_nothing_to_choose(view)))
            return
        spot = spot_of(view, self._cursor)
        if spot is not None:
            match.send("press", spot=spot.id)
        elif view.chooser is None:
            self.post_message(self.Refused(_nothing_to_choose(view)))
        else:
            x, y = centre(view, self._cursor)
            match.send("click", x=x, y=y)  # the match says why it is not possible
            self.query_one("#game-head", Static).update(f"{head_line(view)} · {name_of(view, self._cursor)}")


def _nothing_to_choose(view: MatchView) -> str:
    if view.chooser is not None:
        return "There is no list for these actions: j types one."
    acting = ", ".join(agent.agent for agent in view.agents if agent.acting) or "no agent"
    return f"It is not your turn: {acting} must act now."
