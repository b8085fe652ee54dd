"""Commands to runs: stop, pause, resume, save, label; each in a thread, with a message for its result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.app import App

from mosaic.core.errors import InputError
from mosaic.ui.tui.tabs.base import AppTab
from mosaic.ui.tui.widgets.dialogs import Prompt

if TYPE_CHECKING:
    from mosaic.store.labels import LabelChange
    from mosaic.store.views import RunDetails
    from mosaic.ui.cli.backend import BackendRun

_SETTING = "Setting"
_NAME, _TAGS, _NOTE = "Name", "Tags, separated by spaces", "Note"
_ENDED = ("finished", "stopped", "failed")
_STOPPED = {"queued": "was removed from the queue", "lost": "has no processes any more"}


class RunCommands:
    def __init__(self, app: App[None]) -> None:
        self._app = app

    def stop(self, tab: AppTab) -> None:
        """Stop a run; the message says what that means in its state."""

        def end(run: BackendRun) -> str:
            state = run.show().state
            if state in _ENDED:
                raise InputError(f"{run.id} has ended already: it is {state}.")
            run.stop(wait=False)
            return f"{run.id} {_STOPPED.get(state, 'saves and stops')}."

        self._carry_out(tab, end, "", "")

    def pause(self, tab: AppTab) -> None:
        """Pause a run, or continue one that is paused."""

        def change(run: BackendRun) -> str:
            if run.show().state == "paused":
                run.resume()
                return f"{run.id} continues."
            run.pause()
            return f"{run.id} is paused."

        self._carry_out(tab, change, "", "Pausing {run} at the end of its iteration …")

    def checkpoint(self, tab: AppTab) -> None:
        self._carry_out(tab, lambda run: run.checkpoint(), "{run} is saved.", "Saving {run} …")

    def resume(self, tab: AppTab) -> None:
        """Resume a run; start one that is queued; ask for another limit where it has reached its own."""
        ref = self._ref(tab)
        if ref is None:
            return

        def with_settings(said: dict[str, str] | None) -> None:
            if said is not None:
                settings = said[_SETTING].split()
                self._carry_out(tab, lambda run: run.resume(settings=settings), "{run} is resumed.", "Resuming {run} …")

        def decide(state: str) -> None:
            if state == "queued":
                self._carry_out(tab, lambda run: tab.backend.runs.start_queued(run.id), "{run} starts.", "")
            elif state == "finished":
                example = {_SETTING: "training.total_timesteps=2000000"}
                title = f"{ref} has reached its limit. Set another to resume it:"
                self._app.push_screen(Prompt(title, example), with_settings)
            else:
                self._carry_out(tab, lambda run: run.resume(), "{run} is resumed.", "Resuming {run} …")

        tab.shell.prepare(lambda: str(tab.backend.runs.run(ref).show().state), decide)

    def label(self, tab: AppTab) -> None:
        """Ask for another name, tags and note of a run."""
        ref = self._ref(tab)
        if ref is None:
            return

        def ask(details: RunDetails) -> None:
            first = {_NAME: details.name, _TAGS: " ".join(details.tags), _NOTE: details.note}

            def change(said: dict[str, str] | None) -> None:
                if said is not None:
                    new = {key: text for key, text in said.items() if text != first[key]}
                    self._carry_out(tab, lambda run: run.label(_change_of(new)), "The labels of {run} are changed.", "")

            self._app.push_screen(Prompt(f"Labels of {details.run_id}", first), change)

        tab.shell.prepare(lambda: tab.backend.runs.run(ref).show(), ask)

    def _ref(self, tab: AppTab) -> str | None:
        ref = tab.run_ref()
        if ref is None:
            tab.shell.say("No run is selected.", "warning")
        return ref

    def _carry_out(self, tab: AppTab, work: Callable[[BackendRun], object], done: str, first: str) -> None:
        """Call `work` with the tab's run; the message is `done`, or the text that `work` returns."""
        ref = self._ref(tab)
        if ref is None:
            return
        if first:
            tab.shell.say(first.format(run=ref))

        def finish(result: object) -> None:
            tab.shell.say(result if isinstance(result, str) else done.format(run=ref), "done")
            tab.refresh_now()

        tab.shell.aside(lambda: work(tab.backend.runs.run(ref)), finish)


def _change_of(said: Mapping[str, str]) -> LabelChange:
    """Check labels as they were typed."""
    from mosaic.store.labels import make_change

    values = {_NAME: "name", _TAGS: "tags", _NOTE: "note"}
    return make_change(**{values[key]: text.split() if key == _TAGS else text for key, text in said.items()})
