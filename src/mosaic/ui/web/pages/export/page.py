"""Export page: a form, the progress of an export, its comparison and files, and the history."""

from __future__ import annotations

import time
from html import escape
from urllib.parse import quote, urlencode

from nicegui import run as threads
from nicegui import ui

from mosaic.core.errors import MosaicError
from mosaic.runs.exporting.jobs import ExportJobs
from mosaic.runs.exporting.record import ComparedFile, ExportRow
from mosaic.store.logs import STREAMS
from mosaic.store.state import ENDED, State
from mosaic.ui.web.api import ask_or_complain
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import ago
from mosaic.ui.web.components.widgets import box, button, complain, empty, enable, panel, pill, raw, set_html
from mosaic.ui.web.pages.export.form import ExportForm

_REFRESH_S = 0.5
_EARLIER = 20


async def page(frame: PageLayout, export: str = "", run: str = "") -> None:
    """Show the export with this id, or a form for a new one of `run`, and the history."""
    frame.title("Export")
    jobs = ExportJobs(frame.context.store)
    row = await threads.io_bound(jobs.row, export) if export else None
    known = [each.run_id for each in frame.facts.rows()]
    if row is not None and row.request.run in known:  # it may be deleted, or a checkpoint by its path
        chosen = row.request.run
    else:
        chosen = frame.context.folder(run).run_id if run else next(iter(known), "")
    _ExportPage(frame, jobs, row).build(chosen, await threads.io_bound(jobs.rows) or [])


class _ExportPage:
    def __init__(self, frame: PageLayout, jobs: ExportJobs, row: ExportRow | None) -> None:
        self._frame, self._jobs, self._row = frame, jobs, row

    def build(self, run: str, rows: list[ExportRow]) -> None:
        with box("m-page"):
            self._place = box("stack gap-4")
            self._form = ExportForm(self._frame.facts, run, self._begin)
            with panel("History", hint="exports of this store", body="m-body tight"):
                self._earlier = box()
            self._show_history(rows)
        if self._row is None:
            return
        if self._row.state in ENDED:
            self._show(*self._look(self._row.export_id))
        else:
            self._follow(self._row)

    async def _begin(self) -> None:
        try:
            request = self._form.request()
        except MosaicError as error:
            complain(str(error))
            return
        self._form.busy(True)
        reply = await ask_or_complain("/exports", request)
        self._form.busy(False)
        if reply is not None:  # keep it in the address: a reload shows the same
            ui.navigate.to(f"/export?{urlencode({'export': reply.document['export_id']})}")

    def _follow(self, row: ExportRow) -> None:
        self._place.clear()
        with self._place, panel("Exporting", hint=row.export_id) as end:
            with end:
                cancel = button("Cancel", self._cancel, glyph="stop", kind="danger small")
            bar = raw("", "m-bar")
            words = raw("", "small muted").props("role=status")
            output = show_output("")

        def tell(now: ExportRow, log: str) -> None:
            stopping = now.state is State.STOPPING
            enable(cancel, not stopping)
            set_html(bar, f'<i style="width:{now.share:.1%}"></i>')
            text = now.progress.text if now.progress else "starting"
            set_html(words, "cancelling" if stopping else escape(text))
            set_html(output, escape(log))

        async def refresh() -> None:
            found = await threads.io_bound(self._look, row.export_id)
            if found is None or self._place.is_deleted:
                return
            if found[0].state in ENDED:
                rows = await threads.io_bound(self._jobs.rows)  # before the timer, and this call with it, is cleared
                timer.cancel()
                self._show_history(rows or [])
                self._show(*found)
            else:
                tell(*found)

        tell(row, "")
        with self._place:
            timer = ui.timer(_REFRESH_S, refresh)

    def _look(self, export_id: str) -> tuple[ExportRow, str]:
        parts = [self._jobs.log(export_id, size=4000, stream=stream).text for stream in STREAMS]
        return self._jobs.row(export_id), "".join(parts)

    async def _cancel(self) -> None:
        assert self._row is not None
        await ask_or_complain(f"/exports/{self._row.export_id}/cancel")

    def _show(self, row: ExportRow, log: str) -> None:
        self._place.clear()
        with self._place:
            show_report(row, log)

    def _show_history(self, rows: list[ExportRow]) -> None:
        if self._earlier.is_deleted:
            return
        self._earlier.clear()
        with self._earlier:
            if not rows:
                empty("There are no exports yet. Choose a run above and press Export.")
            now = time.time()
            for row in rows[:_EARLIER]:
                link = raw(_words(row, now), "e-earlier", "a")
                link.props["href"] = f"/export?{urlencode({'export': row.export_id})}"


def _words(row: ExportRow, now: float) -> str:
    number = len(row.request.policies)
    count = "all policies" if number == 0 else "1 policy" if number == 1 else f"{number} policies"
    what = f"{count} of {row.request.run}, {row.request.target}"
    return (
        f'{pill(str(row.state))}<b class="strong">{escape(row.export_id)}</b><span class="clip">{escape(what)}</span>'
        f'<span class="faint small" style="margin-left:auto">{ago(row.created, now)}</span>'
    )


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
