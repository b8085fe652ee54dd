"""Terminal app: tabs, keys, the status line, and commands to runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast

from rich.table import Table
from textual.app import App, ComposeResult, SystemCommand
from textual.binding import Binding, BindingType
from textual.events import Event, Key, Resize
from textual.screen import Screen
from textual.widgets import ContentSwitcher, Footer, Static

from mosaic.core.errors import MosaicError
from mosaic.ui.tui.backend.protocol import AppBackend
from mosaic.ui.tui.commands import RunCommands
from mosaic.ui.tui.key_order import KeyOrder
from mosaic.ui.tui.keys import EVERYWHERE, OF_TABS, bindings, shown
from mosaic.ui.tui.notices import Kind, StatusLine
from mosaic.ui.tui.tabs.base import AppTab, TabEntry
from mosaic.ui.tui.widgets.dialogs import Confirm, TextScreen, TooSmall

if TYPE_CHECKING:
    from mosaic.ui.tui.tabs.metrics import MetricsTab
    from mosaic.ui.tui.tabs.train import TrainTab

T = TypeVar("T")
SMALLEST = (80, 24)
TABS = (
    TabEntry("home", "1", "HomeTab"),
    TabEntry("train", "2", "TrainTab"),
    TabEntry("metrics", "3", "MetricsTab"),
    TabEntry("play", "4", "PlayTab"),
    TabEntry("export", "5", "ExportTab"),
    TabEntry("runs", "6", "RunsTab"),
)


class TabBar(Static):
    """Titles of the tabs with their digits."""

    def show(self, active: str) -> None:
        parts = []
        for tab in TABS:
            text = f" {tab.DIGIT} {tab.NAME.title()} "
            parts.append(f"[reverse b]{text}[/]" if active == tab.NAME else text)
        self.update("[b #2dbfab] Mosaic [/] " + " ".join(parts))


class MosaicTui(App[None]):
    """The app; everything that it shows and does comes from its backend."""

    CSS_PATH = "tui.tcss"
    TITLE = "Mosaic"
    ENABLE_COMMAND_PALETTE = True
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(EVERYWHERE),
        *(Binding(tab.DIGIT, f"tab('{tab.NAME}')", tab.NAME.title(), show=False) for tab in TABS),
        Binding("left", "step_tab(-1)", show=False),
        Binding("right", "step_tab(1)", show=False),
    ]

    def __init__(
        self, backend: AppBackend, *, clock: Callable[[], float] = time.time, first_tab: str = TABS[0].NAME
    ) -> None:
        super().__init__()
        self.backend, self.clock = backend, clock
        self._tabs = {tab.NAME: tab for tab in TABS}
        self._active = first_tab
        self._trail: list[str] = []  # tabs to go back to
        self._commands = RunCommands(self)
        self._keys = KeyOrder(self, self._forward_key)

    def compose(self) -> ComposeResult:
        yield TabBar(id="bar")
        yield ContentSwitcher(id="tabs")
        yield StatusLine(self.backend.place, self.clock)
        yield Footer(compact=True)

    async def on_mount(self) -> None:
        self.theme = "textual-dark"
        self.app_resume_signal.subscribe(self, lambda _: self.refresh(layout=True))  # fg shows an empty screen first
        await self._activate(self._active)

    def on_resize(self, event: Resize) -> None:
        """Show a message in place of a screen that does not fit."""
        small = event.size.width < SMALLEST[0] or event.size.height < SMALLEST[1]
        if isinstance(self.screen, TooSmall):
            if small:
                self.screen.tell()
            else:
                self.pop_screen()
        elif small:
            self.push_screen(TooSmall())

    # Keys

    async def on_event(self, event: Event) -> None:
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._keys.admit(event):
            await self._forward_key(event)

    async def _forward_key(self, key: Key) -> None:
        if not self.screen_stack:
            return  # the app has ended since the key was typed
        target = self.focused or self.screen
        await super().on_event(key)
        self._keys.follow(target)

    def on_key_passed(self) -> None:
        self._keys.passed()

    @property
    def tab(self) -> AppTab:
        return self.query_one(f"#{self._active}", AppTab)

    # What tabs use

    def say(self, text: str, kind: Kind = "info") -> None:
        self.screen_stack[0].query_one(StatusLine).say(text, kind)

    def aside(
        self, work: Callable[[], T], done: Callable[[T], None], failed: Callable[[], None] = lambda: None
    ) -> None:
        def carry_out() -> None:
            try:
                result = work()
            except (MosaicError, OSError) as error:
                self.call_from_thread(self._deliver, failed)  # first: keys that are pressed at the message count again
                self.call_from_thread(self._deliver, self.say, str(error) or type(error).__name__, "error")
            else:
                self.call_from_thread(self._deliver, done, result)

        self.run_worker(carry_out, thread=True, exit_on_error=True)

    def _deliver(self, take: Callable[..., None], *results: object) -> None:
        """Hand over what a thread found, unless the app has ended meanwhile: its widgets are gone then."""
        if self.is_running:
            take(*results)

    def prepare(self, work: Callable[[], T], open_dialog: Callable[[T], None]) -> None:
        held = self._keys.hold()

        def show(result: T) -> None:
            if self._keys.release(held):
                open_dialog(result)

        self.aside(work, show, lambda: self._keys.drop(held))

    def show_runs(self, refs: Sequence[str]) -> None:
        self.call_later(self._show_runs, refs)

    async def _show_runs(self, refs: Sequence[str]) -> None:
        await self.action_tab("metrics")
        cast("MetricsTab", self.tab).show_runs(refs)

    def show_log(self, ref: str) -> None:
        self.call_later(self._use_train, lambda tab: tab.visit(ref))

    def train_with(self, project: str, preset: str) -> None:
        self.call_later(self._use_train, lambda tab: tab.use_preset(project, preset))

    async def _use_train(self, work: Callable[[TrainTab], None]) -> None:
        await self.action_tab("train")
        work(cast("TrainTab", self.tab))

    def show_tab(self, name: str) -> None:
        self.call_later(self.action_tab, name)

    def tell_source(self, running: int | None = None, lost: str = "") -> None:
        line = self.screen_stack[0].query_one(StatusLine)
        if running is not None:
            line.show_running(running)
        else:
            line.show_lost(lost)

    # Tabs

    async def action_tab(self, name: str) -> None:
        if name != self._active:
            self._trail.append(self._active)
            await self._activate(name)

    async def action_step_tab(self, step: int) -> None:
        names = list(self._tabs)
        await self.action_tab(names[(names.index(self._active) + step) % len(names)])

    async def _activate(self, name: str) -> None:
        switcher = self.query_one(ContentSwitcher)
        for tab in switcher.query(AppTab):
            tab.hidden()
        self._active = name
        if not switcher.query(f"#{name}"):
            tab = self._tabs[name].load()()
            tab.display = False  # until it is the current one: two tabs would share the screen while it is mounted
            await switcher.mount(tab)
        switcher.screen.set_focus(None)  # a focused widget that is hidden would take the focus from the new tab, later
        switcher.current = name
        self.query_one(TabBar).show(name)
        self.tab.shown()

    async def action_back(self) -> None:
        if self.tab.back():
            self.tab.focus_main()
        elif self._trail:
            await self._activate(self._trail.pop())

    # Meanings of keys

    def action_new(self) -> None:
        self.tab.new()

    def action_open(self) -> None:
        self.tab.open()

    def action_filter(self) -> None:
        self.tab.filter()

    def action_log(self) -> None:
        self.tab.open_log()

    def action_config(self) -> None:
        self.tab.config()

    def action_delete(self) -> None:
        self.tab.delete()

    def action_stop(self) -> None:
        if not self.tab.cancel():
            self._commands.stop(self.tab)

    def action_pause(self) -> None:
        if not self.tab.pause():
            self._commands.pause(self.tab)

    def action_resume(self) -> None:
        self._commands.resume(self.tab)

    def action_rename(self) -> None:
        if not self.tab.rename():
            self._commands.label(self.tab)

    def action_checkpoint(self) -> None:
        self._commands.checkpoint(self.tab)

    def action_messages(self) -> None:
        history = list(self.screen_stack[0].query_one(StatusLine).history)
        lines = [notice.dated for notice in reversed(history)]
        self.push_screen(TextScreen("Messages", "\n".join(lines) or "[dim]There are no messages yet.[/]"))

    def action_help(self) -> None:
        table = Table.grid(padding=(0, 2))
        digits = "  ".join(f"{tab.DIGIT} {tab.NAME}" for tab in TABS)
        table.add_row("digits, ← →", f"change tabs: {digits}")
        for key in (*EVERYWHERE, *OF_TABS.get(self._active, ())):
            table.add_row(shown(key.key), key.help)
        table.add_row("ctrl+p", "Find any of these actions by name")
        self.push_screen(TextScreen("Keys", table))

    async def action_quit(self) -> None:
        """Quit at once, or after a confirmation where something would be lost; runs continue."""
        lost = next((text for tab in self.query(AppTab) if (text := tab.unsaved())), "")
        if lost:
            self.push_screen(Confirm(f"{lost} Quit?"), lambda sure: self.exit() if sure else None)
        else:
            self.exit()

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        for tab in TABS:
            yield SystemCommand(f"Tab {tab.NAME.title()}", f"Go to {tab.NAME}", partial(self.show_tab, tab.NAME))
        for key in EVERYWHERE:
            yield SystemCommand(key.title, key.help, cast(Callable[[], None], partial(self.run_action, key.action)))
        for tab_name in sorted(OF_TABS, key=lambda name: name != self._active):  # the actions of this tab first
            for key in OF_TABS[tab_name]:
                title = key.title if tab_name == self._active else f"{tab_name.title()}: {key.title}"
                work = partial(self._tab_action, tab_name, key.action)
                yield SystemCommand(title, key.help, cast(Callable[[], None], work))

    async def _tab_action(self, tab: str, action: str) -> None:
        """Carry out an action of a tab, after a change to it."""
        await self.action_tab(tab)
        await self.run_action(action, self.tab)
