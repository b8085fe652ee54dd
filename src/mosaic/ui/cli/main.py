"""The `mosaic` command: the Typer app with all commands, exit codes, errors, Ctrl-C.

Each command imports its work when it is called, so that --help stays quick.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from copy import copy
from functools import cache
from typing import Annotated

import typer
from typer.main import get_command

from mosaic.core.compile_time import timer
from mosaic.core.errors import MosaicError
from mosaic.core.user_code import exits_refused
from mosaic.ui.cli.commands.bench import bench
from mosaic.ui.cli.commands.catalog import check, doctor, envs, policies, schema, workers
from mosaic.ui.cli.commands.demo import demo
from mosaic.ui.cli.commands.demos import app as demos_app
from mosaic.ui.cli.commands.evaluate import evaluate, tournament
from mosaic.ui.cli.commands.export import export
from mosaic.ui.cli.commands.exports import app as exports_app
from mosaic.ui.cli.commands.labels import hide, note, rename, tag
from mosaic.ui.cli.commands.play import play, replay
from mosaic.ui.cli.commands.probe import probe
from mosaic.ui.cli.commands.projects import app as projects_app
from mosaic.ui.cli.commands.run_control import checkpoint, delete, pause, resume, stop
from mosaic.ui.cli.commands.runs import app as runs_app
from mosaic.ui.cli.commands.serve import mcp, policy_server, serve
from mosaic.ui.cli.commands.share import bundle, pull, push
from mosaic.ui.cli.commands.train import train
from mosaic.ui.cli.commands.tui import tui
from mosaic.ui.cli.commands.tune import tune
from mosaic.ui.cli.commands.watch import watch
from mosaic.ui.cli.setting_help import SettingsCommand

app = typer.Typer(
    name="mosaic",
    help="A workbench for reinforcement learning: any policy can take any agent's place in any environment.",
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
    *(demo, envs, workers, policies, doctor, check, probe, bench, schema),
    *(train, tune, watch, evaluate, tournament, play, replay, export, bundle, push, pull),
    *(serve, policy_server, mcp, tui),
)
for command in COMMANDS:
    app.command(name=command.__name__.replace("_", "-"), cls=SettingsCommand)(command)
for command in (stop, pause, resume, checkpoint, delete, rename, note, tag, hide):
    runs_app.command(name=command.__name__, cls=SettingsCommand)(command)
app.add_typer(runs_app, name="runs")
app.add_typer(exports_app, name="exports")
app.add_typer(demos_app, name="demos")
app.add_typer(projects_app, name="projects")


# Typer bundles its own copy of click: the class is taken from what Typer exposes.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


@cache
def _command(name: str) -> Callable[..., object]:
    """Build the command of this name, once per process, without the others, which take longer than many a command's
    work; build all of them where none has this name.
    """
    found = copy(app)
    found.registered_commands = [each for each in app.registered_commands if each.name == name]
    found.registered_groups = [each for each in app.registered_groups if each.name == name]
    return get_command(found if found.registered_commands or found.registered_groups else app)


def main(arguments: Sequence[str] | None = None) -> None:
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    as_json = "--json" in words
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115 - open for the life of the process
    if sys.stdout is None:
        # The next file opened would get its descriptor, and printed output would go into that file.
        sys.exit(_complain("Standard output is closed. Send it somewhere else: mosaic … > /dev/null", 1, as_json))
    if sys.stderr.isatty() and not as_json:
        timer.on_first = _mention_compiling
    try:
        completing = "_MOSAIC_COMPLETE" in os.environ  # set by the shell's completion, which Typer ends with an exit
        # Typer itself returns exit codes of commands
        with nullcontext() if completing else exits_refused("Code that this command loaded"):
            code = _command(words[0])(args=words, standalone_mode=False, prog_name="mosaic")
    except MosaicError as error:
        if _reader_has_gone(error):
            code = _leave_quietly()
        else:
            code = _fail(error, str(error), error.exit_code, as_json, debug)
    except ModuleNotFoundError as error:
        code = _fail(error, _missing_text(error), 2, as_json, debug)
    except UsageError as error:
        code = _complain(_usage_text(error), 2, as_json)
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    except BrokenPipeError:
        code = _leave_quietly()
    except OSError as error:
        code = _fail(error, f"{error.filename or 'The output'}: {error.strerror or error}.", 1, as_json, debug)
    except Exception as error:  # noqa: BLE001 - shown, with its traceback under --debug
        text = f"Mosaic failed: {type(error).__name__}: {error}\nType the same command with --debug to see where."
        code = _fail(error, text, 1, as_json, debug)
    if code == 130 and not as_json:
        print("\nStopped.", file=sys.stderr)
    sys.exit(code if isinstance(code, int) else 0)


def _reader_has_gone(error: MosaicError) -> bool:
    """Return whether Click or Rich tried to exit because nothing reads our output, as in `mosaic envs | head`."""
    ended = error.__cause__
    return isinstance(ended, SystemExit) and isinstance(ended.__context__, BrokenPipeError)


def _leave_quietly() -> int:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard what is still buffered
    return 0


def _mention_compiling() -> None:
    from mosaic.ui.cli.output import note

    note("Compiling machine code, once after an installation or upgrade …")


def _fail(error: Exception, text: str, code: int, as_json: bool, debug: bool) -> int:
    """Explain an error, or show its traceback, which ends with the same text, under --debug."""
    if not debug:
        return _complain(text, code, as_json)
    traceback.print_exception(error)
    return code


def _complain(text: str, code: int, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"error": text}), file=sys.stderr)
    else:
        from mosaic.ui.cli.output import complain

        complain(text)
    return code


def _missing_text(error: ModuleNotFoundError) -> str:
    from mosaic.core.plugins import install_line

    name = (error.name or "").partition(".")[0]
    return f"This needs the Python package '{name}', which is not installed. Type: {install_line(name)}"


def _usage_text(error: Exception) -> str:
    message, context = _refusal(error), getattr(error, "ctx", None)
    if not context:
        return message
    stop = "" if message.endswith((".", "?", "!")) else "."
    return f"{message}{stop} Type: {context.command_path} --help"


def _refusal(error: Exception) -> str:
    """Return what is wrong with the words of a command, in the form that settings have."""
    from pydantic import ValidationError

    from mosaic.core.errors import demand, did_you_mean, shown

    message = str(error.format_message() if hasattr(error, "format_message") else error)
    if not isinstance(error.__cause__, ValidationError):
        return message
    (complaint, *_) = error.__cause__.errors()
    said, where = demand(complaint), message.partition(": ")[0]
    if complaint["type"] == "value_error":
        choices = said.split("'")[3::2] if "' is not one of '" in said else ()
        return f"{where}: {said}{did_you_mean(str(complaint['input']), choices)}"
    return f"{where.removeprefix('Invalid value for ')} cannot be {shown(complaint['input'])}: {said}"
