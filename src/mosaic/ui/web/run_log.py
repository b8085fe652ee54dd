"""Log panel of a run's page: the end of what its worker wrote."""

from __future__ import annotations

import re
from html import escape

from nicegui import run

from mosaic.server.schemas import RunDetails
from mosaic.store.logs import STREAMS, Stream, WorkerLog
from mosaic.store.run_folder import RunFolder
from mosaic.ui.web.components.widgets import Segmented, box, panel, raw

_BYTES = 48 << 10
_LINES = 300
_WARNING = re.compile(r"warn|error|exception|traceback|fail|nan\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class LogPanel:
    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._ends: dict[Stream, int] = {}
        self._texts: dict[Stream, str] = {}
        self._level = "All"
        with panel("Log", body="m-body tight", classes="r-log") as end:
            with end:
                Segmented(["All", "Warnings", "Stderr"], "All", self._choose, "Level")
            with box():
                self._lines = raw("", "m-log").props('tabindex=0 role=log aria-label="Log of the worker"')

    def _choose(self, level: str) -> None:
        self._level = level
        self._show()

    async def update(self, details: RunDetails) -> None:
        changed = False
        for stream in STREAMS:
            read = await run.io_bound(tail, self._folder, stream, _BYTES)
            if read is None:  # the server is shutting down
                return
            text, end = read
            changed |= self._ends.get(stream) != end
            self._ends[stream], self._texts[stream] = end, text
        if changed and not self._lines.is_deleted:
            self._show()

    def _show(self) -> None:
        streams: tuple[Stream, ...] = ("stderr",) if self._level == "Stderr" else STREAMS
        lines = [line for each in streams for line in self._texts.get(each, "").splitlines() if line.strip()]
        only_warnings = self._level == "Warnings"
        shown = [line for line in lines if not only_warnings or _WARNING.search(line)][-_LINES:]
        nothing = "The worker has printed no warning." if only_warnings else "The worker has printed nothing."
        marked = (f'<span class="{"w" if _WARNING.search(line) else ""}">{escape(line)}</span>' for line in shown)
        self._lines.set_content("\n".join(marked) or f'<span class="faint">{nothing}</span>')
        self._lines.client.run_javascript(
            f"const log = getHtmlElement({self._lines.id}); if (log) log.scrollTop = log.scrollHeight;"
        )


def tail(folder: RunFolder, stream: Stream, size: int) -> tuple[str, int]:
    """The last whole lines, without colours, which are for terminals; and the position after them."""
    part = WorkerLog(folder, stream).read(None, size)
    text, end = part.text()
    if part.start > 0:
        text = text.partition("\n")[2]
    return _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n")), end
