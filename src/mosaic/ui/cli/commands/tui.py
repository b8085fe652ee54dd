"""The `mosaic tui` command: the terminal app."""

from __future__ import annotations

import typer

from mosaic.ui.cli.options import ServerOption


def tui(server: ServerOption = None) -> None:
    """Open the terminal app: runs, curves, projects and training, over ssh too. Runs continue when it is closed."""
    from mosaic.ui.tui.run import run_tui

    raise typer.Exit(run_tui(server))
