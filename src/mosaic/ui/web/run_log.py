"""The end of what the worker printed."""

from __future__ import annotations

import re
from html import escape

from nicegui import run

from mosaic.server.answers import RunDetails
from mosaic.store.layout import RunFolder
from mosaic.ui.web.widgets import Segmented, box, panel, raw

_BYTES = 48 << 10
_LINES = 300
_WARNING = re.compile(r"warn|error|exception|traceback|fail|nan\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class LogPanel:
    def __init__(self, folder: RunFolder) -> None:
        self._folder = folder
        self._size = -1
        self._text = ""
        self._only_warnings = False
        with panel("Log", body="m-body tight", classes="r-log") as end:
            with end:
                Segmented(["All", "Warnings"], "All", self._choose, "Level")
            with box():
                self._lines = raw("", "m-log").props('tabindex=0 role=log aria-label="Log of the worker"')

    def _choose(self, level: str) -> None:
        self._only_warnings = level == "Warnings"
        self._show()

    async def update(self, details: RunDetails) -> None:
        size = self._folder.log.stat().st_size if self._folder.log.exists() else 0
        if size == self._size:
            return
        self._size = size
        text = await run.io_bound(tail, self._folder, _BYTES)
        if text is not None and not self._lines.is_deleted:
            self._text = text
            self._show()

    def _show(self) -> None:
        lines = [line for line in self._text.splitlines() if line.strip()]
        shown = [line for line in lines if not self._only_warnings or _WARNING.search(line)][-_LINES:]
        nothing = "The worker has printed no warning." if self._only_warnings else "The worker has printed nothing."
        marked = (f'<span class="{"w" if _WARNING.search(line) else ""}">{escape(line)}</span>' for line in shown)
        self._lines.set_content("\n".join(marked) or f'<span class="faint">{nothing}</span>')
        self._lines.client.run_javascript(
            f"const log = getHtmlElement({self._lines.id}); if (log) log.scrollTop = log.scrollHeight;"
        )


def tail(folder: RunFolder, size: int) -> str:
    """Whole lines; colours are for terminals."""
    if not folder.log.exists():
        return ""
    with folder.log.open("rb") as file:
        length = file.seek(0, 2)
        file.seek(max(0, length - size))
        text = file.read(size).decode(errors="replace")
    if length > size:
        text = text.partition("\n")[2]
    return _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
