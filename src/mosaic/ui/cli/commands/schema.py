"""The `mosaic schema` command, which prints JSON schemas of configurations."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    what: Annotated[str, typer.Argument(metavar="run|WORKER", help="run, or the name of a worker.")],
    algorithm: Annotated[str | None, typer.Argument(help="Algorithm of the worker.", show_default="the first")] = None,
) -> None:
    """Print the JSON schema of a run or of a worker's options."""
    from mosaic.config.schema import run_schema
    from mosaic.core.errors import unknown
    from mosaic.core.plugins import plugins
    from mosaic.ui.cli.output import print_json
    from mosaic.workers.registry import load_worker, options_model

    if what == "run":
        print_json(run_schema())
        return
    if what not in plugins("mosaic.workers"):
        raise unknown("schema", what, ["run", *plugins("mosaic.workers")])
    worker = load_worker(what)
    print_json(options_model(worker, algorithm or worker.info.algorithms[0]).model_json_schema())
