"""Commands that label runs: `mosaic runs rename`, `note`, `tag` and `hide`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import JsonOption, RunArgument, ServerOption

if TYPE_CHECKING:
    from mosaic.store.labels import LabelChange
    from mosaic.store.views import RunDetails


def rename(
    run: RunArgument,
    name: Annotated[str, typer.Argument(help="New name; '' removes it, and the run is shown by its id.")],
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Rename a run."""
    from mosaic.store.labels import make_change

    labels = make_change(name=name)
    _label(run, lambda _: labels, server, json)


def note(
    run: RunArgument,
    text: Annotated[str | None, typer.Argument(help="New note; '' removes it.", show_default="print the note")] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Set or print the note of a run."""
    from mosaic.store.labels import LabelChange, make_change

    labels = LabelChange() if text is None else make_change(note=text)
    _label(run, lambda _: labels, server, json)


def tag(
    run: RunArgument,
    tags: Annotated[list[str] | None, typer.Argument(metavar="TAG", help="Tags to add.")] = None,
    remove: Annotated[list[str] | None, typer.Option("--remove", metavar="TAG", help="Remove this tag.")] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Add tags to a run, and remove others."""
    from mosaic.core.errors import unknown
    from mosaic.store.labels import make_change

    def changed(details: RunDetails) -> LabelChange:
        missing = [name for name in remove or () if name not in details.tags]
        if missing:
            raise unknown("tag of this run", missing[0], details.tags)
        return make_change(add_tags=tags or (), remove_tags=remove or ())

    _label(run, changed, server, json)


def hide(
    run: RunArgument,
    undo: Annotated[bool, typer.Option("--undo", help="List the run again.")] = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Hide a run from lists without deleting it; `mosaic runs list --hidden` shows it."""
    from mosaic.store.labels import LabelChange

    _label(run, lambda _: LabelChange(hidden=not undo), server, json)


def _label(run: str, change: Callable[[RunDetails], LabelChange], server: str | None, json: bool) -> None:
    from mosaic.ui.cli.backend import open_backend
    from mosaic.ui.cli.output import out, print_json

    with open_backend(server) as runs:
        chosen = runs.run(run)
        labels = change(chosen.show())
        if labels.model_fields_set:
            chosen.label(labels)
        details = chosen.show()
    if json:
        print_json(details.model_dump(mode="json", include={"run_id", "name", "tags", "note", "hidden"}))
        return
    out.print(f"{details.run_id}: {details.name or 'no name'}" + (", hidden" if details.hidden else ""), markup=False)
    out.print(f"tags: {', '.join(details.tags) or 'none'}", markup=False)
    out.print(f"note: {details.note or 'none'}", markup=False)
