"""Play tab: a form for a new game, games to watch, the game itself, and replays of recorded ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar

from rich.markup import escape
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import DataTable, Static

from mosaic.ui.tui.keys import OF_TABS, bindings, hint
from mosaic.ui.tui.play.connection import MatchConnection
from mosaic.ui.tui.play.game import GamePane, NewsArrived
from mosaic.ui.tui.play.replay import ReplayPane
from mosaic.ui.tui.play.watch import WatchPane
from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.tabs.play_dialogs import ask_for_move, ask_for_players, edit_row
from mosaic.ui.tui.tabs.play_replays import ask_for_replay, ask_to_play_on
from mosaic.ui.tui.widgets.dialogs import TextScreen
from mosaic.ui.tui.widgets.tables import KeyedTable

if TYPE_CHECKING:
    from mosaic.server.client.matches import MatchLink
    from mosaic.server.client.replays import ReplayLink
    from mosaic.server.play.replay_views import ReplayAsked
    from mosaic.store.views import LiveRow
    from mosaic.telemetry.frames.reader import Pictures
    from mosaic.ui.tui.play.form import GameForm

_KEYS = OF_TABS["play"]
_OWN = "own"  # key of the game that is open here
_LOWEST_HZ, _HIGHEST_HZ = 0.25, 120.0
_WATCH_HZ = 4.0


class PlayTab(AppTab):
    NAME, DIGIT = "play", "4"
    BINDINGS: ClassVar[list[BindingType]] = bindings(_KEYS, footer=False)

    def __init__(self) -> None:
        super().__init__()
        self._form: GameForm | None = None
        self._asked: object = None  # the newest look at an env
        self._sessions: dict[str, LiveRow] = {}
        self._halted = False  # the game is paused because it is not shown
        self.add_reader(lambda: self.backend.matches.sessions(), self._show_sessions, every_s=2.0)

    def compose(self) -> ComposeResult:
        with Vertical(id="play-setup"):
            with Horizontal():
                with Vertical(id="play-left"):
                    yield Static("New game", classes="section")
                    yield KeyedTable(("setting", "value"), id="play-form")
                with Vertical(id="play-right"):
                    yield Static("Being played", classes="section")
                    yield KeyedTable(("game", "players"), id="play-games")
            yield Static("[dim]Looking at the environment …[/]", id="play-help")
            yield Static(hint(_KEYS[:3]) + "  [b]⏎[/b] change, or watch a game  [b]tab[/b] other list", classes="hint")
        yield GamePane("play-game")
        yield WatchPane("play-watch")
        yield ReplayPane("play-replay")
        yield Static(hint(_KEYS[3:]) + "  [b]n[/b] new game  [b]esc[/b] back", id="play-hint", classes="hint")

    def on_mount(self) -> None:
        self._show_part("play-setup")
        backend = self.backend

        def load() -> GameForm:
            from mosaic.ui.tui.play.form import first_form

            return first_form(backend)

        self.shell.aside(load, self.show_form)

    # Parts of the tab

    def _show_part(self, name: str) -> None:
        shown = self.query_one(f"#{name}")
        shown.display = True
        for part in ("play-setup", "play-game", "play-watch", "play-replay"):
            if part != name:
                self.query_one(f"#{part}").display = False
        self.query_one("#play-hint").display = name == "play-game"
        self._halt(name != "play-game")

    def shown(self) -> None:
        super().shown()
        self._halt(not self.game.display)

    def hidden(self) -> None:
        super().hidden()
        self._halt(True)

    def _halt(self, halt: bool) -> None:
        """Pause a real-time game that is played here while it is not shown, and continue it afterwards."""
        view, match = self.game.view, self.game.match
        if match is None or view is None:
            self._halted = False
        elif halt and view.plays and view.real_time and view.phase == "playing" and not view.paused:
            self._halted = True
            match.send("pause", on=True)
        elif not halt and self._halted:
            self._halted = False
            match.send("pause", on=False)

    def focus_main(self) -> None:
        if self.game.display:
            self.game.focus()
        elif self.watched.display:
            self.watched.focus()
        elif self.replayed.display:
            self.replayed.focus()
        else:
            self.query_one("#play-form").focus()

    @property
    def game(self) -> GamePane:
        return self.query_one("#play-game", GamePane)

    @property
    def watched(self) -> WatchPane:
        return self.query_one("#play-watch", WatchPane)

    @property
    def replayed(self) -> ReplayPane:
        return self.query_one("#play-replay", ReplayPane)

    # The form

    @property
    def form(self) -> GameForm | None:
        return self._form

    def show_form(self, form: GameForm) -> None:
        self._form = form
        self.query_one("#play-form", KeyedTable).fill(form.rows())
        self._show_help()

    def look(self, env: str) -> None:
        """Show the form of another env."""
        backend, asked, options = self.backend, object(), self._form.options if self._form else {}
        self._asked = asked

        def load() -> GameForm:
            from mosaic.ui.tui.play.form import load_form

            return load_form(backend, env, options)

        self.query_one("#play-help", Static).update(f"[dim]Looking at {escape(env)} …[/]")
        self.shell.aside(load, lambda form: self.show_form(form) if self._asked is asked else None)

    def _show_help(self) -> None:
        key = self.query_one("#play-form", KeyedTable).selected
        if self._form is not None and key is not None:
            self.query_one("#play-help", Static).update(Text(self._form.help(key), "#7d8794"))

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        self._show_help()

    def _show_sessions(self, rows: list[LiveRow]) -> None:
        self._sessions = {row.id: row for row in rows}
        self._fill_games()

    def _fill_games(self) -> None:
        view = self.game.view
        cells: dict[str, tuple[Text, Text]] = {}
        if self.game.match is not None and view is not None:
            cells[_OWN] = (Text(view.env, "#2dbfab"), Text(f"here: {view.phase}"))
        for row in self._sessions.values():
            if view is None or row.id != view.match_id:
                cells[row.id] = (Text(row.env), Text(", ".join(dict.fromkeys(row.policies.values()))))
        self.query_one("#play-games", KeyedTable).fill(cells)

    # Meanings of keys

    def open(self) -> None:
        """Change the selected setting, or show the selected game."""
        games = self.query_one("#play-games", KeyedTable)
        if self.replayed.display:
            self._show_transcript()
        if not self.query_one("#play-setup").display:
            return
        if self.app.focused is not games:
            edit_row(self, self.query_one("#play-form", KeyedTable).selected or "")
        elif games.selected == _OWN:
            self._show_part("play-game")
            self.focus_main()
        elif games.selected is not None:
            self._watch(games.selected)
        else:
            self.shell.say("No other game is being played.", "warning")

    def action_start(self) -> None:
        """Start a game: with the players of the form, or from the position of the replay that is shown."""
        form, shot = self._form, self.replayed.position
        if self.replayed.display and shot is not None:
            ask_to_play_on(self, *shot)
            return
        if form is None:
            self.shell.say("The form is not ready yet.", "warning")
            return
        self._leave_game(end=True)
        request, env, matches = form.request(), form.env, self.backend.matches
        self.shell.say(f"Opening {env} …")
        self.shell.aside(lambda: matches.open(request), lambda link: self._enter(link, env))

    def _enter(self, link: MatchLink, env: str) -> None:
        self._leave_game(end=True)
        game = self.game
        match = MatchConnection(link, lambda: game.post_message(NewsArrived()))
        game.attach(match, env)
        self._show_part("play-game")
        self.focus_main()
        match.start()

    def _watch(self, session_id: str) -> None:
        env, matches = self._sessions[session_id].env, self.backend.matches

        def look(pictures: Pictures) -> None:
            self.watched.show(pictures, env)
            self._show_part("play-watch")
            self.focus_main()

        def join(link: MatchLink | None) -> None:
            if link is not None:
                self._enter(link, env)
            else:
                self.shell.aside(lambda: matches.pictures(session_id, _WATCH_HZ), look)

        self.shell.aside(lambda: matches.join(session_id), join)

    def replay(self, asked: ReplayAsked, title: str) -> None:
        """Show a recorded episode."""

        def show(link: ReplayLink) -> None:
            self._leave_replay()
            self.replayed.attach(link, title)
            self._show_part("play-replay")
            self.focus_main()

        self.shell.aside(lambda: self.backend.replays.open(asked), show)

    def play_on(self, step: int, players: Mapping[str, str]) -> None:
        """Start a game from a position of the replay; Esc returns to it."""
        replay = self.replayed.link
        if replay is None:
            return

        def enter(link: MatchLink) -> None:
            from mosaic.ui.tui.play.form import HUMAN, TERMINAL_HZ

            self._enter(link, f"step {step:,}")
            if HUMAN in players.values():
                link.send({"type": "rate", "hz": TERMINAL_HZ})

        self.shell.say(f"Opening a game from step {step:,} …")
        self.shell.aside(lambda: replay.play_on(step, players), enter)

    def _leave_replay(self) -> None:
        link = self.replayed.leave()
        if link is not None:
            self.shell.aside(link.close, lambda _: None)

    def _show_transcript(self) -> None:
        said = self.replayed.transcript()
        if said is None:
            self.shell.say("No policy reported on a decision in this position.", "warning")
        else:
            self.app.push_screen(TextScreen("Decision in this position", said))

    def on_game_pane_refused(self, event: GamePane.Refused) -> None:
        self.shell.say(event.text, "warning")

    def on_game_pane_over(self, event: GamePane.Over) -> None:
        """Return to the form with the reason; a match that never began leaves no game."""
        self.shell.say(event.reason, "warning" if self.game.view is not None else "error")
        self._leave_game(end=False)
        self.back()

    def _leave_game(self, *, end: bool) -> None:
        match = self.game.match
        if match is not None:
            self.game.detach()
            self.game.view = None
            self.shell.aside(lambda: match.leave(end=end), lambda _: self._fill_games())

    def new(self) -> None:
        """Begin the next game of the match, or start one from the form."""
        match = self.game.match
        if match is not None and self.game.display:
            match.send("restart")
        else:
            self.action_start()

    def cancel(self) -> bool:
        if self.replayed.display:
            return self.back()
        if self.game.match is None:
            self.shell.say("No game is open here.", "warning")
            return True
        self._leave_game(end=True)
        self.shell.say("The game is ended.", "done")
        self.back()
        return True

    def pause(self) -> bool:
        match, view = self.game.match, self.game.view
        if self.replayed.display:
            self.replayed.toggle()
        elif match is None or view is None:
            self.shell.say("No game is open here.", "warning")
        else:
            match.send("pause", on=not view.paused)
        return True

    def back(self) -> bool:
        if self.query_one("#play-setup").display:
            return False
        if self.game.display and self.replayed.link is not None:  # the game was started from a position of it
            self._show_part("play-replay")
            self.focus_main()
            return True
        self.watched.leave()
        self._leave_replay()
        self._show_part("play-setup")
        self._fill_games()
        if self.game.match is not None:
            self.query_one("#play-games", KeyedTable).move_cursor(row=0)  # the game that was left
        self.focus_main()
        return True

    def unsaved(self) -> str:
        view = self.game.view
        here = self.game.match is not None and view is not None and view.plays and view.phase == "playing"
        return "The game on Play is not over." if here else ""

    def action_evaluate(self) -> None:
        from mosaic.ui.tui.tabs.play_evaluation import ask_for_evaluation

        ask_for_evaluation(self)

    # Keys of a game

    def action_move(self) -> None:
        ask_for_move(self)

    def action_players(self) -> None:
        ask_for_players(self)

    def action_replay(self) -> None:
        ask_for_replay(self)

    def action_undo(self) -> None:
        self.send("undo")

    def action_step(self) -> None:
        if self.replayed.display:
            self.replayed.action_go(1)
        else:
            self.send("step")

    def action_slower(self) -> None:
        self._set_rate(0.5)

    def action_faster(self) -> None:
        self._set_rate(2.0)

    def _set_rate(self, share: float) -> None:
        view = self.game.view
        if self.replayed.display:
            self.replayed.change_speed(1 if share > 1 else -1)
        elif view is not None:
            self.send("rate", hz=min(_HIGHEST_HZ, max(_LOWEST_HZ, view.rate_hz * share)))

    def action_advice(self) -> None:
        view = self.game.view
        self.send("thoughts", on=view is None or not view.thinking)

    def send(self, kind: str, **parts: str | float | bool | None) -> None:
        """Send a message to the game that is open, or say that there is none."""
        if self.game.match is None or self.game.view is None:
            self.shell.say("No game is open here: t starts one.", "warning")
        else:
            self.game.match.send(kind, **parts)
