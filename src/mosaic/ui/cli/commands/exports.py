"""The `mosaic exports` commands, which list exports and act on them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mosaic.ui.cli.options import JsonOption, ServerOption

if TYPE_CHECKING:
    from mosaic.runs.exporting.record import ExportRow

app = typer.Typer(help="List exports and act on them.", invoke_without_command=True, rich_markup_mode=None)

ExportArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="EXPORT", help="The export: its id, a unique prefix, or latest.")
]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_(run=None, server=None, json=False)


@app.command(name="list")
def list_(
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="List only exports of this run.")] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """List exports, the newest first."""
    from mosaic.ui.cli.backend import open_exports
    from mosaic.ui.cli.output import note, print_json, print_table

    with open_exports(server) as exports:
        rows = exports.rows(run)
    if json:
        print_json([row.model_dump(mode="json") for row in rows])
        return
    cells = [
        [
            row.export_id,
            str(row.state),
            row.request.run,
            f"{row.request.checkpoint:,}" if isinstance(row.request.checkpoint, int) else "",
            row.request.target,
            _written_to(row),
        ]
        for row in rows
    ]
    columns = ["export", "state", "run", "env steps", "target", "written to"]
    title = f"{len(cells)} export{'' if len(cells) == 1 else 's'}"
    print_table(title, columns, cells, ["env steps"], whole=1)
    if not cells:
        note("Start one: mosaic export RUN --out PATH")


def _written_to(row: ExportRow) -> str:
    """Return where the files of an export are; empty where it has not written any."""
    from mosaic.store.state import State

    return (row.request.out or "its own folder") if row.state is State.FINISHED else ""


@app.command()
def show(export: ExportArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Show an export: state, progress, and the comparison of each file with its policy."""
    from mosaic.ui.cli.backend import open_exports
    from mosaic.ui.cli.export_view import moment, show_files
    from mosaic.ui.cli.output import out, print_json

    with open_exports(server) as exports:
        row = exports.row(export)
    if json:
        print_json(row.model_dump(mode="json"))
        return
    out.print(f"{row.export_id}: {row.state}" + (f", {row.reason}" if row.reason else ""), soft_wrap=True)
    if row.ended is None and row.progress is not None:
        out.print(row.progress.text)
    by_path = row.request.run.startswith("checkpoint:")
    what = row.request.run if by_path else f"run {row.request.run}, {row.request.checkpoint} env steps"
    out.print(f"{what}, target {row.request.target}", soft_wrap=True)
    out.print(f"started {moment(row.started)}" + (f", ended {moment(row.ended)}" if row.ended else ""))
    if row.compared:
        show_files("Files and their comparison", row)


@app.command()
def log(
    export: ExportArgument,
    follow: Annotated[bool, typer.Option("--follow", help="Keep printing new lines until it has ended.")] = False,
    server: ServerOption = None,
) -> None:
    """Print what an export wrote to stdout, then to stderr."""
    from mosaic.store.logs import STREAMS
    from mosaic.ui.cli.backend import BackendExport, open_exports
    from mosaic.ui.cli.log import print_log

    with open_exports(server) as exports:
        print_log(BackendExport(exports, exports.row(export).export_id), STREAMS, None, follow=follow)


@app.command()
def cancel(export: ExportArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Cancel an export; no file is written. One that has ended stays as it is."""
    from mosaic.ui.cli.backend import open_exports
    from mosaic.ui.cli.output import out, print_json

    with open_exports(server) as exports:
        row = exports.cancel(export)
    if json:
        print_json({"export_id": row.export_id, "state": str(row.state)})
    else:
        out.print(f"{row.export_id} is {row.state}.")


@app.command()
def download(
    export: ExportArgument,
    to: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="A new folder.", show_default="its id, in this folder"),
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Copy the files of an export into a new folder; files that changed since their comparison are refused."""
    from mosaic.ui.cli.backend import open_exports
    from mosaic.ui.cli.export_view import download_files
    from mosaic.ui.cli.output import out, print_json

    with open_exports(server) as exports:
        row = exports.row(export)
        paths = download_files(exports, row, to or Path(row.export_id))
    if json:
        print_json({"export_id": row.export_id, "files": [str(path) for path in paths]})
        return
    for path in paths:
        out.print(str(path), soft_wrap=True, markup=False)


@app.command()
def delete(export: ExportArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Delete an export from the history. Files that it wrote to another place stay there."""
    from mosaic.ui.cli.backend import open_exports
    from mosaic.ui.cli.output import out, print_json

    with open_exports(server) as exports:
        deleted = exports.delete(export)
    if json:
        print_json({"export_id": deleted, "deleted": True})
    else:
        out.print(f"{deleted} is deleted.")
