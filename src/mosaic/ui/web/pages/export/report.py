"""Report of an export: the comparison of each file with its policy, and the downloads."""

from __future__ import annotations

from html import escape
from urllib.parse import quote

from nicegui import ui

from mosaic.runs.exporting.record import ComparedFile, ExportRow
from mosaic.store.state import State
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.widgets import box, panel, pill, raw

_HEAD = ("Policy", "Largest difference", "Equal actions", "Compared on", "Verdict", "File")


def show_report(row: ExportRow, log: str) -> None:
    """Show how an export ended: its reason, its comparison, its files; without files also what it printed."""
    if row.state is not State.FINISHED:
        words = "It was cancelled, and no file was written." if row.state is State.STOPPED else row.reason
        with panel("Cancelled" if row.state is State.STOPPED else "It failed"):
            raw(f"{icon('alert', 'bad')}<span>{escape(words or 'See its log.')}</span>", "row top").props("role=status")
    if row.compared:
        passed = sum(each.passed for each in row.compared)
        with panel("Comparison", hint=f"{passed} of {len(row.compared)} files do what their policies do"):
            raw(comparison_table(row), "m-scroll")
    if row.written:
        with panel("Files", hint="as they were compared"), box("stack"):
            for each in row.written:
                link = raw(f"{icon('export')}<span>{escape(each.name)}</span>{_size(each.size)}", "row x-file", "a")
                link.props["href"], link.props["download"] = file_address(row.export_id, each.name), each.name
    elif log:
        with panel("Output"):
            show_output(escape(log))


def show_output(text: str) -> ui.html:
    """Show what an export printed, in escaped text; its last lines stay in view."""
    return raw(text, "x-log").props('role=log tabindex=0 aria-label="Output of the export"')


def comparison_table(row: ExportRow) -> str:
    """Return the comparison as a table, a line for each file."""
    heads = "".join(f'<th{_number(place)} scope="col">{head}</th>' for place, head in enumerate(_HEAD))
    lines = "".join(_line(row, each) for each in row.compared)
    return f'<table class="m-table dense"><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>'


def file_address(export_id: str, name: str) -> str:
    """Return the address that a file is downloaded from."""
    return f"/exports/{quote(export_id, safe='')}/files/{quote(name, safe='')}"


def _line(row: ExportRow, each: ComparedFile) -> str:
    far = "infinite" if each.max_abs_diff is None else f"{each.max_abs_diff:.2g}"
    verdict = pill("finished" if each.passed else "failed").replace("finished", "equal").replace("failed", "differs")
    file = "not kept"
    if each.name and row.written:
        file = f'<a href="{file_address(row.export_id, each.name)}" download>{escape(each.name)}</a>'
    cells = (
        f'<b class="strong">{escape(each.policy)}</b>',
        f'{far} <span class="faint">of {each.tolerance:g}</span>',
        f"{each.action_agreement:.2%}",
        f"{each.recorded:,} recorded, {each.random:,} random",
        verdict,
        file,
    )
    return "<tr>" + "".join(f"<td{_number(place)}>{cell}</td>" for place, cell in enumerate(cells)) + "</tr>"


def _number(place: int) -> str:
    return ' class="num"' if place in (1, 2) else ""


def _size(count: int) -> str:
    text = f"{count:,} bytes" if count < 10_000 else f"{count / 1000:,.0f} kB"
    return f'<span class="faint small">{text}</span>'
