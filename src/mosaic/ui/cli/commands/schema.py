"""`mosaic schema run`: what a run's configuration may say."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(what: Annotated[str, typer.Argument(metavar="run", help="What to describe: run.")]) -> None:
    """Print the JSON schema of a run's configuration."""
    from mosaic.config.schema import run_schema
    from mosaic.core.errors import unknown
    from mosaic.ui.cli.screen import print_json

    if what != "run":
        raise unknown("schema", what, ["run"])
    print_json(run_schema())
