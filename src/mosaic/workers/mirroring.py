"""How a worker's process keeps the mirrors that its run asks for."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from mosaic.telemetry.events.writer import EventWriter
from mosaic.telemetry.sinks.base import mirror, sink_factory


@contextmanager
def mirrored(run_folder: Path, names: Sequence[str], writer: EventWriter) -> Iterator[None]:
    """A thread that copies; a mirror that fails costs an alert, never the run. Unknown names are refused at once."""
    if not names:
        yield
        return
    for name in names:
        sink_factory(name)
    stop = threading.Event()

    def copy() -> None:
        try:
            mirror(run_folder, names, stop)
        except Exception as error:  # noqa: BLE001 - foreign code and a foreign disk; the run itself is well
            traceback.print_exc()
            writer.report(kind="alert", message=f"The mirrors {', '.join(names)} stopped: {error}")

    thread = threading.Thread(target=copy, daemon=True, name="mirrors")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
