"""Export jobs in the terminal: progress of one that is followed, and tables of its files."""

from __future__ import annotations

from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.core.files import new_folder
from mosaic.core.interrupts import ctrl_c_deferred, ctrl_c_kept
from mosaic.store.state import State
from mosaic.ui.cli.output import err, note, out, print_json, print_table

if TYPE_CHECKING:
    from mosaic.config.export import ExportRequest
    from mosaic.runs.exporting.record import ExportRow
    from mosaic.ui.cli.backend import BackendExports

_COLUMNS = ("policy", "file", "largest difference", "equal actions", "recorded + random")


def export_here(jobs: BackendExports, request: ExportRequest, json: bool) -> None:
    """Start an export and follow it to its end; Ctrl-C cancels it."""
    started: list[ExportRow] = []
    try:
        with ctrl_c_kept():
            with ctrl_c_deferred():
                started.append(jobs.start(request))
            row = follow(jobs, started[0].export_id, shown=not json)
    except KeyboardInterrupt:
        for each in started:
            ended = jobs.cancel(each.export_id)
            if not json:
                done = ended.state is State.FINISHED
                note("It had just finished: its files are there." if done else "Cancelled: no file was written.")
        raise
    refuse_failure(row)
    if json:
        print_json({"files": _documents(row)})
    else:
        show_files("Exported and compared", row)


def follow(jobs: BackendExports, export_id: str, *, shown: bool) -> ExportRow:
    """Show progress on stderr until the export has ended; without a terminal, a line for each step."""
    if shown and err.is_terminal:
        columns = (SpinnerColumn(), BarColumn(), TextColumn("{task.description}"))
        with Progress(*columns, TextColumn("Ctrl-C cancels", style="dim"), console=err, transient=True) as bar:
            task = bar.add_task("starting", total=1.0)
            for row in jobs.follow(export_id):
                text = row.progress.text if row.progress else str(row.state)
                bar.update(task, completed=row.share, description=text)
        return row
    said = ""
    for row in jobs.follow(export_id):
        if row.progress is not None:
            line = row.progress.model_copy(update={"done": 0, "total": 0}).text
            if shown and line != said:
                note(line)
            said = line
    return row


def refuse_failure(row: ExportRow) -> None:
    """Raise the error of an export that did not finish, with the exit code of its reason."""
    if row.state is State.FINISHED:
        return
    if row.state is State.STOPPED:
        raise MosaicError(f"The export {row.export_id} was cancelled: no file was written.")
    if row.exit_code == InputError.exit_code:
        raise InputError(row.reason)
    lost = f"The export {row.export_id} is lost: " if row.state is State.LOST else ""
    raise MosaicError(f"{lost}{row.reason or 'see its log'} (mosaic exports log {row.export_id})")


def download_files(jobs: BackendExports, row: ExportRow, folder: Path) -> list[Path]:
    """Copy the files of an export into a new folder, all or none; return their places."""
    if row.state is not State.FINISHED:
        raise InputError(f"The export {row.export_id} is {row.state}: it has no files.")
    target = folder.expanduser().absolute()
    if target.exists() or target.is_symlink():
        raise InputError(f"{target} exists. Name a new folder with --out.")
    with new_folder(target) as made:
        for each in row.written:
            if Path(each.name).name != each.name:
                raise FormatError(f"'{each.name}' is not the name of a file.")
            jobs.download(row.export_id, each.name, made / each.name)
            if sha256((made / each.name).read_bytes()).hexdigest() != each.sha256:
                raise FormatError(f"'{each.name}' is not the file that was compared: its hash differs.")
    return [target / each.name for each in row.written]


def say_detached(row: ExportRow, json: bool) -> None:
    if json:
        print_json({"export_id": row.export_id, "state": str(row.state)})
        return
    out.print(row.export_id)
    note("Look at it: mosaic exports show latest    Cancel it: mosaic exports cancel latest")


def show_files(title: str, row: ExportRow) -> None:
    """Print the comparison of each file with its policy."""
    rows = [
        (
            each.policy,
            each.path or "not kept",
            "infinite" if each.max_abs_diff is None else f"{each.max_abs_diff:.2g}",
            f"{each.action_agreement:.2%}",
            f"{each.recorded} + {each.random}",
        )
        for each in row.compared
    ]
    print_table(title, _COLUMNS, rows, numbers=_COLUMNS[2:])


def moment(seconds: float | None) -> str:
    return "" if seconds is None else datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")


def _documents(row: ExportRow) -> list[dict[str, object]]:
    wanted = {"policy", "path", "agents", "max_abs_diff", "action_agreement"}
    return [each.model_dump(mode="json", include=wanted) for each in row.compared]
