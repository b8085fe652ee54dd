"""Tab of the terminal app: its readers, which rest while it is hidden, and what the keys mean on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, TypeVar, cast

from textual.containers import Vertical
from textual.widgets import Input

from mosaic.ui.tui.backend.protocol import AppBackend
from mosaic.ui.tui.notices import Kind
from mosaic.ui.tui.reader import Reader, Reading
from mosaic.ui.tui.widgets.dialogs import Confirm, TextScreen, highlighted
from mosaic.ui.tui.widgets.filter_bar import FilterBar

if TYPE_CHECKING:
    from mosaic.store.views import RunDetails

T = TypeVar("T")
LIVE_STATES = ("starting", "running", "paused", "stopping")
_COUNT_S = 3.0


class Shell(Protocol):
    """The app, as tabs see it."""

    backend: AppBackend
    clock: Callable[[], float]

    def say(self, text: str, kind: Kind = "info") -> None: ...

    def aside(self, work: Callable[[], T], done: Callable[[T], None]) -> None:
        """Do work in a thread, then call `done` with its result; an error becomes a message."""
        ...

    def prepare(self, work: Callable[[], T], open_dialog: Callable[[T], None]) -> None:
        """Read in a thread what a dialog needs, then open it; keys typed meanwhile go to the dialog, Esc gives up."""
        ...

    def show_runs(self, refs: Sequence[str]) -> None:
        """Show the curves of runs."""
        ...

    def show_tab(self, name: str) -> None: ...

    def show_log(self, ref: str) -> None:
        """Show the log of a run on Train."""
        ...

    def train_with(self, project: str, preset: str) -> None:
        """Show the training form with a preset of a project; "" where it has none."""
        ...

    def tell_source(self, running: int | None = None, lost: str = "") -> None:
        """Show how many runs are live, and why the source cannot be read; "" means that it can."""
        ...


class AppTab(Vertical):
    """A tab. Keys call its methods; one that means nothing here is explained in the status line."""

    NAME: ClassVar[str]
    DIGIT: ClassVar[str]

    def __init__(self) -> None:
        super().__init__(id=self.NAME)
        self._readers: list[Reader[object]] = []
        self._failing: set[Reader[object]] = set()

    @property
    def shell(self) -> Shell:
        return cast(Shell, self.app)

    @property
    def backend(self) -> AppBackend:
        return self.shell.backend

    def add_reader(
        self,
        read: Callable[[], T],
        show: Callable[[T], None],
        *,
        every_s: float,
        key: Callable[[T], object] = lambda value: value,
    ) -> Reader[T]:
        """Add a reader that works while the tab is shown."""
        reader = Reader(self, read, show, self.fail, every_s=every_s, key=key)
        self._readers.append(cast(Reader[object], reader))
        return reader

    def watch_runs(self) -> None:
        """Keep the number of live runs in the status line up to date, on a tab that reads no list of runs."""

        def count() -> int:
            return sum(row.state in LIVE_STATES for row in self.backend.runs.rows())

        self.add_reader(count, lambda number: self.shell.tell_source(number), every_s=_COUNT_S)

    def on_reading(self, event: Reading) -> None:
        """Show what was read; an error stays visible until every reader that failed has read again."""
        event.stop()
        failed = event.reader in self._failing
        read = event.reader.deliver()
        if event.reader.failed:
            self._failing.add(event.reader)
            return
        self._failing.discard(event.reader)
        if (
            read or failed
        ) and not self._failing:  # one that had nothing to read does not show that the source is there
            self.shell.tell_source()

    def on_unmount(self) -> None:
        for reader in self._readers:
            reader.stop()

    def shown(self) -> None:
        """Read once the tab is drawn, as what reading imports would delay the first screen; called whenever the tab
        comes into view.
        """
        self.call_after_refresh(self._begin_reading)
        self.focus_main()

    def _begin_reading(self) -> None:
        for reader in self._readers if self.display else ():
            reader.start()

    def hidden(self) -> None:
        self._failing.clear()
        for reader in self._readers:
            reader.rest()

    def refresh_now(self) -> None:
        """Read everything again, after a command that changed something."""
        for reader in self._readers:
            reader.poke()

    def fail(self, error: str) -> None:
        """Show why nothing could be read; the readers try again by themselves."""
        self.shell.tell_source(lost=error)

    def focus_main(self) -> None:
        """Focus what the arrow keys should move in."""

    # Meanings of keys

    def run_ref(self) -> str | None:
        """Return the run that stop, pause, resume and save concern; None where there is none."""
        return None

    def new(self) -> None:
        """Set up a new run."""
        self.shell.show_tab("train")

    def open(self) -> None:
        ref = self.run_ref()
        if ref is None:
            self.shell.say("Nothing is selected.", "warning")
        else:
            self.shell.show_runs([ref])

    def cancel(self) -> bool:
        """Handle `stop` where it does not concern a run; return False where it does."""
        return False

    def pause(self) -> bool:
        """Handle `pause` where it does not concern a run; return False where it does."""
        return False

    def rename(self) -> bool:
        """Handle `rename` where it does not concern a run; return False where it does."""
        return False

    def open_log(self) -> None:
        """Show the log of the run that keys concern."""
        ref = self.run_ref()
        if ref is None:
            self.shell.say("No run is selected.", "warning")
        else:
            self.shell.show_log(ref)

    def config(self) -> None:
        """Show the configuration of the run that keys concern."""
        ref = self.run_ref()
        if ref is None:
            self.shell.say("No run is selected.", "warning")
            return

        def show(details: RunDetails) -> None:
            title = f"Configuration of {details.run_id}"
            self.app.push_screen(TextScreen(title, highlighted(details.config, ".yaml")))

        self.shell.prepare(lambda: self.backend.runs.run(ref).show(), show)

    def passes(self, *texts: str | None) -> bool:
        """Return whether the filter lets something with these texts through."""
        return all(bar.passes(*texts) for bar in self.query(FilterBar))

    def filter(self) -> None:
        """Open the filter of the tab's lists."""
        for bar in self.query(FilterBar):
            bar.open()
            return
        self.shell.say("There is no list to filter on this tab.", "warning")

    def filtered(self) -> None:
        """Show what the filter lets through; called whenever it changes."""

    def on_input_changed(self, event: Input.Changed) -> None:
        self.filtered()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.focus_main()

    def delete(self) -> None:
        """Delete what is selected, after a confirmation."""
        self.delete_run(self.run_ref())

    def delete_run(self, ref: str | None) -> None:
        if ref is None:
            self.shell.say("No run is selected.", "warning")
            return

        def carry_out(sure: bool | None) -> None:
            if sure:
                self.shell.aside(lambda: self.backend.runs.run(ref).delete(), lambda _: deleted())

        def deleted() -> None:
            self.shell.say(f"{ref} is deleted.", "done")
            self.refresh_now()

        question = f"Delete the run {ref} with its checkpoints and metrics? This cannot be undone."
        self.app.push_screen(Confirm(question), carry_out)

    def back(self) -> bool:
        """Leave what is open inside the tab, its filter first; return False where nothing is."""
        for bar in self.query(FilterBar):
            if bar.display:
                bar.close()
                return True
        return False

    def unsaved(self) -> str:
        """Return what would be lost by quitting; "" where nothing would."""
        return ""


def stage_of(backend: AppBackend, details: RunDetails, now: float) -> str:
    """Return why a run waits in the queue, or what its start is doing; "" where neither is so. Called in threads."""
    if details.state == "queued":
        from mosaic.ui.web.data.progress import queue_words

        return queue_words(details.run_id, backend.runs.queue())
    return "" if details.start is None else details.start.text(now)


class TabEntry(NamedTuple):
    """A tab in the bar. Its module is imported when it is first shown, so that the first screen waits for no other."""

    NAME: str  # also that of its module
    DIGIT: str
    class_name: str

    def load(self) -> type[AppTab]:
        found: type[AppTab] = getattr(import_module(f"mosaic.ui.tui.tabs.{self.NAME}"), self.class_name)
        return found
