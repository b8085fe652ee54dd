"""The `mosaic exports` commands, which list exports and act on them."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import typer

from mosaic.ui.cli.options import JsonOption

app = typer.Typer(help="List exports and act on them.", invoke_without_command=True, rich_markup_mode=None)

ExportArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="EXPORT", help="The export: its id, a unique prefix, or latest.")
]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_(run=None, json=False)


@app.command(name="list")
def list_(
    run: Annotated[str | None, typer.Option("--run", metavar="RUN", help="List only exports of this run.")] = None,
    json: JsonOption = False,
) -> None:
    """List exports, the newest first."""
    from mosaic.runs.exporting.jobs import ExportJobs
    from mosaic.ui.cli.output import note, print_json, print_table

    rows = ExportJobs().rows(run)
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
            row.request.out or "its own folder",
        ]
        for row in rows
    ]
    columns = ["export", "state", "run", "env steps", "target", "written to"]
    print_table(f"{len(cells)} exports", columns, cells, ["env steps"], whole=1)
    if not cells:
        note("Start one: mosaic export RUN --out PATH")


@app.command()
def show(export: ExportArgument, json: JsonOption = False) -> None:
    """Show an export: state, progress, and the comparison of each file with its policy."""
    from mosaic.runs.exporting.jobs import ExportJobs
    from mosaic.ui.cli.export_view import moment, show_files
    from mosaic.ui.cli.output import out, print_json

    row = ExportJobs().row(export)
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
def log(export: ExportArgument) -> None:
    """Print what an export wrote to stdout, then to stderr."""
    from mosaic.runs.exporting.jobs import ExportJobs
    from mosaic.store.logs import STREAMS

    jobs = ExportJobs()
    for stream in STREAMS:
        print(jobs.log(export, size=1_000_000, stream=stream).text, end="")


@app.command()
def cancel(export: ExportArgument, json: JsonOption = False) -> None:
    """Cancel an export; no file is written. One that has ended stays as it is."""
    from mosaic.runs.exporting.jobs import ExportJobs
    from mosaic.ui.cli.output import out, print_json

    row = ExportJobs().cancel(export)
    if json:
        print_json({"export_id": row.export_id, "state": str(row.state)})
    else:
        out.print(f"{row.export_id} is {row.state}.")


@app.command()
def delete(export: ExportArgument, json: JsonOption = False) -> None:
    """Delete an export from the history. Files that it wrote to another place stay there."""
    from mosaic.runs.exporting.jobs import ExportJobs
    from mosaic.ui.cli.output import out, print_json

    deleted = ExportJobs().delete(export)
    if json:
        print_json({"export_id": deleted, "deleted": True})
    else:
        out.print(f"{deleted} is deleted.")
