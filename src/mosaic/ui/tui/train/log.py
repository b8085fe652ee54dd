"""Live log of a run: its last lines from both streams, read piece by piece, with its state."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from mosaic.store.state import LIVE, State

if TYPE_CHECKING:
    from mosaic.store.logs import Stream
    from mosaic.store.views import RunDetails
    from mosaic.ui.cli.backend import BackendRun

MOST_LINES = 500
_STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
_MOST_PARTS = 16  # of one reading; what is left comes with the next


class RunLog(NamedTuple):
    """Lines of a log that are shown, the newest, and the number of lines since the first that was read."""

    details: RunDetails
    lines: tuple[str, ...]
    written: int
    stage: str  # why the run waits, or what its start is doing


class LogTail:
    """Newest lines of one run; the files keep all of them."""

    def __init__(self, run: BackendRun, stage: Callable[[RunDetails], str] = lambda details: "") -> None:
        self._run, self._stage = run, stage
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._ends: dict[Stream, int] = {}
        self._begun: dict[Stream, str] = {}  # lines without an end so far
        self._count = 0

    def read(self) -> RunLog:
        """Read what was written since the last call; a line without an end counts once the run has ended."""
        details = self._run.show()
        for stream in _STREAMS:
            self._follow(stream)
            if details.state not in (*LIVE, State.QUEUED) and self._begun.get(stream):
                self._add([self._begun.pop(stream)])
        return RunLog(details, tuple(self._lines), self._count, self._stage(details))

    def _follow(self, stream: Stream) -> None:
        for _ in range(_MOST_PARTS):
            part = self._run.log(after=self._ends.get(stream), stream=stream)
            self._ends[stream] = part.end
            if not part.text:
                return
            *whole, self._begun[stream] = (self._begun.get(stream, "") + part.text).split("\n")
            self._add(whole)

    def _add(self, lines: list[str]) -> None:
        self._lines.extend(line.rstrip("\r").rpartition("\r")[2] for line in lines)  # a progress bar's last state
        self._count += len(lines)
