"""Log output of a run's worker or of an export, printed and followed, on this machine or from a server."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence

from mosaic.store.logs import Stream
from mosaic.store.state import ENDED
from mosaic.ui.cli.backend import BackendExport, BackendRun

_BYTES = 500_000  # per request
_LOOK_EVERY_S = 0.5


def print_log(run: BackendRun | BackendExport, streams: Sequence[Stream], tail: int | None, *, follow: bool) -> None:
    """Print each stream; with `follow`, also what is written later, until the run or export has ended."""
    positions = {stream: 0 if tail is None else _print_tail(run, stream, tail) for stream in streams}
    while True:
        ended = not follow or run.show().state in ENDED  # read first, so that all output before the end is printed
        for stream in streams:
            positions[stream] = _print_from(run, stream, positions[stream])
        sys.stdout.flush()
        if ended:
            return
        threading.Event().wait(_LOOK_EVERY_S)


def _print_from(run: BackendRun | BackendExport, stream: Stream, position: int) -> int:
    """Print the log from this position on; return the position after it."""
    while True:
        part = run.log(position, _BYTES, stream)
        print(part.text, end="")
        if part.end <= position or not part.text:
            return max(part.end, position)
        position = part.end


def _print_tail(run: BackendRun | BackendExport, stream: Stream, lines: int) -> int:
    """Print the last lines, read from the end backwards; return the position after them."""
    part = run.log(None, _BYTES, stream)
    text, start, end = part.text, part.start, part.end
    while text.count("\n") <= lines and start > 0:
        earlier = run.log(max(0, start - _BYTES), min(_BYTES, start), stream)
        if earlier.end <= earlier.start or earlier.end > start:  # the rest has been dropped in the meantime
            break
        text, start = earlier.text + text, earlier.start
    print("".join(text.splitlines(keepends=True)[-lines:]) if lines else "", end="")
    return end
