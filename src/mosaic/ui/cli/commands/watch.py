"""`mosaic watch`: a run's curve on the terminal, live."""

from __future__ import annotations

from typing import Annotated

import typer

from mosaic.ui.cli.options import RunArgument, ServerOption


def watch(
    run: RunArgument,
    server: ServerOption = None,
    once: Annotated[bool, typer.Option("--once", help="Draw what there is and leave.")] = False,
) -> None:
    """Watch a run's curve in the terminal; Ctrl-C leaves it running."""
    from mosaic.ui.cli.following import follow, view_of
    from mosaic.ui.cli.place import place
    from mosaic.ui.cli.screen import out

    with place(server) as runs:
        watched = runs.run(run)
        view = view_of(watched, curve=True)
        details = watched.show()
        if once or details.state in ("finished", "stopped", "failed", "lost"):
            for event in watched.events():
                view.add(event)
                if once and event["seq"] >= details.last_seq:
                    break
            out.print(view.render(min(out.width, 100)))
        else:
            view.note = "Ctrl-C leaves; the run goes on."
            follow(watched, view)
        shown = watched.show()
        out.print(f"{shown.run_id} is {shown.state}" + (f": {shown.reason}" if shown.reason else "."))
