"""Actions on runs that the list and the page of a run share: label, train again, extend, hide, download, delete."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from html import escape
from typing import TypeAlias
from urllib.parse import quote, urlencode

from nicegui import ui

from mosaic.core.ids import JsonObject
from mosaic.store.labels import LONGEST_NOTE, with_tags
from mosaic.store.state import ENDED, State
from mosaic.store.views import LabelledRun
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.theme import title
from mosaic.ui.web.components.widgets import box, button, raw, say, set_html

Done: TypeAlias = Callable[[], Awaitable[None] | None]


class ActionableRun(LabelledRun):
    """Facts about a run that its actions need."""

    state: State
    env_steps: int | None = None
    target_steps: int | None = None


class RunMenu:
    """Menu of a run, opened at a button. It and its dialogs are where it is created, as a row may be redrawn."""

    def __init__(self, done: Done, deleted: Done | None = None) -> None:
        """Create it; `done` is called after a change, `deleted` instead after a deletion."""
        self._done, self._deleted = done, deleted or done
        self._place = box().style("display:contents")

    def open(self, at: ui.element, run: ActionableRun) -> None:
        done = self._done
        self._place.clear()
        with self._place, ui.menu() as menu, box("m-menu stack").props("role=menu"):
            menu.props(f"auto-close no-parent-event anchor='bottom right' self='top right' target='#{at.html_id}'")
            _item("Name, tags and note", "file", lambda: self._act(edit_labels(run, done)))
            _item("Train again with changes", "train", f"/train?{urlencode({'run': run.run_id})}")
            if run.state in ENDED:
                _item("Train longer", "plus", lambda: self._act(extend(run, done)))
                _item("Download as one file", "export", f"{_path(run.run_id)}/archive", download=True)
            hide = "Show in lists again" if run.hidden else "Hide from lists"
            _item(hide, "x", lambda: self._act(set_hidden([run.run_id], not run.hidden, done)))
            if run.state in {*ENDED, State.QUEUED}:
                _item("Delete", "trash", lambda: self._act(delete([run], self._deleted)), kind="bad")
        menu.open()

    async def _act(self, action: Awaitable[None]) -> None:
        with self._place:  # the item that was clicked may be gone before the action is over
            await action


class UnreadableRuns:
    """Line that says which runs are not in the list because their files are damaged, and why."""

    def __init__(self) -> None:
        self._line = raw("", "m-note u-unreadable").props("role=status")
        self.show({})

    def show(self, unreadable: Mapping[str, str]) -> None:
        number = len(unreadable)
        said = "1 run cannot be read and is" if number == 1 else f"{number} runs cannot be read and are"
        reasons = "".join(f"<li><b>{escape(run)}</b> {escape(why)}</li>" for run, why in unreadable.items())
        advice = "Restore the files from a copy, or delete the folder."
        set_html(
            self._line,
            f'<details><summary>{said} not in this list. <span class="m-link">Why?</span></summary>'
            f"<ul>{reasons}</ul><p>{advice}</p></details>",
        )
        self._line.set_visibility(bool(unreadable))


def _item(
    text: str, glyph: str, action: str | Callable[[], Awaitable[None]], *, kind: str = "", download: bool = False
) -> None:
    if isinstance(action, str):
        element = raw(icon(glyph) + escape(text), f"m-item {kind}", "a")
        element.props["href"] = action
        if download:
            element.props("download")
    else:
        element = raw(icon(glyph) + escape(text), f"m-item {kind}", "button").props("type=button")
        element.on("click", action, [])
    element.props("role=menuitem")


@contextmanager
def _dialog(heading: str) -> Iterator[ui.dialog]:
    """Enter the body of a dialog; what it is submitted with is the result of awaiting it."""
    with ui.dialog() as dialog, box("m-panel m-dialog"):
        with box("", "header"):
            raw(escape(heading), "m-h2", "h2")
        with box("m-body stack gap-4"):
            yield dialog


def _buttons(dialog: ui.dialog, verb: str, result: Callable[[], object], kind: str = "primary") -> None:
    with box("row").style("justify-content:flex-end"):
        button("Cancel", lambda: dialog.submit(None))
        button(verb, lambda: dialog.submit(result()), kind=kind)


def _field(label: str, value: str, hint: str = "", *, long: bool = False) -> ui.input | ui.textarea:
    with box("stack gap-1"):
        raw(escape(label), "strong small").props("aria-hidden=true")
        element = (ui.textarea if long else ui.input)(value=value)
        element.props(f"outlined {'autogrow' if long else 'dense'} hide-bottom-space").classes("fill")
        element.props["aria-label"] = label
        if hint:
            raw(escape(hint), "small faint")
    return element


async def edit_labels(run: ActionableRun, done: Done) -> None:
    """Let the user change the name, tags and note of a run."""
    with _dialog(f"Name, tags and note of {title(run)}") as dialog:
        name = _field("Name", run.name, f"Without a name it is shown as {run.run_id}")
        tags = _field("Tags", ", ".join(run.tags), "Separated by commas")
        note = _field("Note", run.note, long=True)
        note.props["maxlength"] = LONGEST_NOTE
        _buttons(dialog, "Save", lambda: {"name": name.value, "tags": _split(tags.value), "note": note.value})
    while labels := await dialog:  # what was refused is shown again, as it was typed
        if await ask_or_complain(_path(run.run_id), labels, method="PATCH"):
            await _call(done)
            return


async def add_tags(runs: Sequence[ActionableRun], done: Done) -> None:
    with _dialog(f"Tags for {_number(runs)}") as dialog:
        tags = _field("Tags to add", "", "Separated by commas")
        _buttons(dialog, "Add", lambda: _split(tags.value))
    added = await dialog
    for run in runs if added else ():
        if not await ask_or_complain(_path(run.run_id), {"add_tags": added}, method="PATCH"):
            break
    await _call(done)


async def extend(run: ActionableRun, done: Done) -> None:
    """Resume an ended run with a later end."""
    reached = run.env_steps or 0
    with _dialog(f"Train {title(run)} longer") as dialog:
        raw(f"It has trained for {reached:,} env steps. It continues from its last checkpoint.", "m-note")
        steps = _field("Env steps in all", str(2 * max(reached, run.target_steps or 0)), "Such as 2000000 or 2e6")
        _buttons(dialog, "Continue training", lambda: steps.value)
    while asked := await dialog:
        body: JsonObject = {"settings": [f"training.total_timesteps={_whole(asked)}"]}
        if await ask_or_complain(f"{_path(run.run_id)}/resume", body):
            say("The run continues.")
            await _call(done)
            return


async def set_hidden(run_ids: Sequence[str], hidden: bool, done: Done) -> None:
    for run_id in run_ids:
        if not await ask_or_complain(_path(run_id), {"hidden": hidden}, method="PATCH"):
            break
    else:
        say("The run is hidden. The filter Hidden shows it." if hidden else "The run is listed again.")
    await _call(done)


async def delete(runs: Sequence[ActionableRun], done: Done) -> None:
    """Delete runs after a confirmation; a queued one is taken out of the queue first."""
    names = ", ".join(title(run) for run in runs[:5]) + (f" and {len(runs) - 5} more" if len(runs) > 5 else "")
    with _dialog(f"Delete {_number(runs)}?") as dialog:
        if len(runs) > 1:
            raw(f"<b>{escape(names)}</b>", "m-lead").style("overflow-wrap:anywhere")
        raw("Curves, logs, checkpoints and recorded episodes are deleted. This cannot be undone.", "m-note")
        _buttons(dialog, "Delete", lambda: True, kind="danger")
    if not await dialog:
        return
    for run in runs:
        if run.state is State.QUEUED and not await ask_or_complain(f"{_path(run.run_id)}/stop"):
            break
        if not await ask_or_complain(_path(run.run_id), method="DELETE"):
            break
    await _call(done)


async def _call(done: Done) -> None:
    result = done()
    if result is not None:
        await result


def _path(run_id: str) -> str:
    return f"/runs/{quote(run_id, safe='')}"


def _number(runs: Sequence[ActionableRun]) -> str:
    return title(runs[0]) if len(runs) == 1 else f"{len(runs)} runs"


def _split(text: str) -> list[str]:
    return list(with_tags(tag.strip() for tag in text.split(",") if tag.strip()))


def _whole(text: str) -> str:
    """Return 2000000 for 2e6, and other text as it is, for the API to refuse."""
    try:
        return str(int(float(text.replace(",", "").replace("_", ""))))
    except (ValueError, OverflowError):
        return text
