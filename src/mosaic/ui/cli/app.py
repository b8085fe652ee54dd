"""The Typer app and its commands; each imports its work when it is called, so that --help stays quick."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from mosaic.ui.cli.commands import (
    check,
    demo,
    doctor,
    envs,
    evaluate,
    play,
    policies,
    probe,
    replay,
    schema,
    serve,
    tournament,
    train,
    tune,
    watch,
    workers,
)
from mosaic.ui.cli.commands.runs import app as runs_app
from mosaic.ui.cli.setting_help import SettingsCommand

app = typer.Typer(
    name="mosaic",
    help="A workbench for reinforcement learning: any policy can take any agent's place in any environment.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        from mosaic.core.version import VERSION

        print(VERSION)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the full traceback of an error; allowed at any position.")
    ] = False,
) -> None:
    """Options of every command."""


COMMANDS: tuple[Callable[..., None], ...] = (
    *(demo, envs, workers, policies, doctor, check, probe, schema),
    *(train, tune, watch, evaluate, tournament, play, replay, serve),
)
for command in COMMANDS:
    app.command(name=command.__name__, cls=SettingsCommand)(command)
app.add_typer(runs_app, name="runs")
