"""How a screen follows a run until it ends."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table

from mosaic.ui.cli.backend import PlacedRun
from mosaic.ui.cli.output import LINE_EVERY_S, Pace, err, note
from mosaic.ui.cli.watching import TrainingView

if TYPE_CHECKING:
    from mosaic.ui.cli.picture_pane import PicturePane

_WIDEST = 100
_BESIDE = 70  # from so many columns on, curve and picture stand side by side
_VIEW_LINES = 20
_GAP = 2


def follow(
    run: PlacedRun, view: TrainingView, *, shown: bool = True, pane: PicturePane | None = None, rate_hz: float = 4
) -> None:
    """Returns when the run has ended; the last picture stays on the screen."""
    if not shown or not err.is_terminal:
        _follow_in_lines(run, view, shown)
        return

    def screen() -> RenderableType:
        return together(view, pane, err.width, err.height)

    # The thread that draws also looks at pictures: events may come seldom, pictures do not wait for them.
    with Live(get_renderable=screen, console=err, refresh_per_second=rate_hz):
        for event in run.events():
            view.add(event)


def _follow_in_lines(run: PlacedRun, view: TrainingView, shown: bool) -> None:
    """Print a plain line now and then where no terminal can be redrawn: a pipe, a file, a job of a cluster."""
    pace = Pace(LINE_EVERY_S, monotonic)
    if shown:
        note(view.line())
    for event in run.events():
        view.add(event)
        kind = event.get("kind")
        if shown and kind in ("equipped", "alert"):
            note(str(event["message"]))
        elif shown and kind in ("iteration", "episode", "compiling") and pace.due():
            note(view.line())


def together(view: TrainingView, pane: PicturePane | None, columns: int, rows: int) -> RenderableType:
    """The curve, and beside it (on a narrow terminal below it) the newest picture."""
    if pane is None:
        return view.render(min(columns, _WIDEST))
    pane.look()
    if not pane.has_picture:
        return Group(view.render(min(columns, _WIDEST)), pane.render(columns, 1))
    if columns < _BESIDE:
        return Group(view.render(columns), pane.render(columns, max(8, rows - _VIEW_LINES)))
    left = min(columns // 2, _WIDEST)
    right = columns - left - _GAP
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=left)
    grid.add_column(width=right)
    grid.add_row(view.render(left), pane.render(right, rows - 2))
    return grid


def view_of(run: PlacedRun, *, curve: bool = False) -> TrainingView:
    config = run.show().config
    environment, training = config["environment"], config["training"]
    env = f"{environment['family']}/{environment['env_id']}"
    title = f"{env}   {training['worker']} {training['algorithm']}"
    return TrainingView(run.id, title, training.get("total_timesteps"), curve=curve)
