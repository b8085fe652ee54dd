"""How a screen follows a run until it ends."""

from __future__ import annotations

from rich.live import Live

from mosaic.ui.cli.place import PlacedRun
from mosaic.ui.cli.screen import err
from mosaic.ui.cli.training_view import TrainingView


def follow(run: PlacedRun, view: TrainingView, *, shown: bool = True) -> None:
    """Returns when the run has ended; the last picture stays on the screen."""
    if not shown or not err.is_terminal:
        for event in run.events():
            view.add(event)
        return
    with Live(get_renderable=lambda: view.render(min(err.width, 100)), console=err, refresh_per_second=4):
        for event in run.events():
            view.add(event)


def view_of(run: PlacedRun, *, curve: bool = False) -> TrainingView:
    config = run.show().config
    environment, training = config["environment"], config["training"]
    env = f"{environment['family']}/{environment['env_id']}"
    title = f"{env}   {training['worker']} {training['algorithm']}"
    return TrainingView(run.id, title, training.get("total_timesteps"), curve=curve)
