"""When a stream about a run is over, and how that is said."""

from __future__ import annotations

from mosaic.runs.processes import is_alive
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, State, read_state

ENDED_CODE, GONE_CODE = 1000, 4404


def final_state(folder: RunFolder) -> State | None:
    """The state of a run that will store nothing more. A worker that lost its supervisor still saves and reports."""
    record = read_state(folder)
    if record.state not in ENDED:
        return None
    worker = record.attempts[-1].worker if record.attempts else None
    if record.state is State.LOST and worker is not None and is_alive(worker):
        return None
    return record.state


def reason(text: str) -> str:
    """A close reason has room for 123 bytes."""
    return text.encode()[:120].decode(errors="ignore")
