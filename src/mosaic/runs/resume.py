"""Cleanup after an attempt whose supervisor died."""

from __future__ import annotations

import os
from collections.abc import Iterable
from time import monotonic

from mosaic.core.errors import MosaicError
from mosaic.core.proc import wait_gone
from mosaic.core.system import open_process
from mosaic.runs.processes import Row, below, end_all, is_alive, look, marked
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ProcessRecord, RunState
from mosaic.telemetry.frames.sources import remove_rings

GRACE_S = 2.0  # for a worker that just noticed the death of its supervisor, and saves
_END_WITHIN_S = 10.0


class LeftoverError(MosaicError):
    """Error for a process of an earlier attempt that cannot be ended."""


def end_leftovers(folder: RunFolder, record: RunState, grace_s: float = GRACE_S) -> None:
    """End every process of earlier attempts. Only the holder of the run's lock may call this."""
    known = {each for attempt in record.attempts for each in (attempt.worker, attempt.supervisor) if each is not None}
    for attempt in record.attempts[-1:]:
        if attempt.worker is not None:
            _await(attempt.worker, grace_s)
    survivors = end_all(lambda: _leftovers(folder.run_id, known), monotonic() + _END_WITHIN_S)
    clear_cluster(folder)
    remove_rings(folder.path)
    if survivors:
        numbers = ", ".join(str(each.pid) for each in survivors)
        raise LeftoverError(
            f"The run {folder.run_id} cannot be resumed: processes of its last attempt do not end (pid {numbers}). "
            "They wait for the system, for example for a disk that does not answer."
        )


def clear_cluster(folder: RunFolder) -> None:
    """End a Ray session that the run's worker left: its agents neither carry our mark nor stay below us."""
    if not (folder.path / "ray.json").exists():
        return
    from mosaic.workers.ray_record import clear_session

    clear_session(folder)


def _leftovers(run_id: str, known: Iterable[ProcessRecord]) -> set[Row]:
    found = marked(run_id)
    for process in known:
        row = look(process.pid)
        if row is not None and is_alive(process) and row.pid != os.getpid():
            found |= {row, *below(row.pid)}
    return found


def _await(process: ProcessRecord, grace_s: float) -> None:
    """Give the process time to end by itself."""
    try:
        handle = open_process(process.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(process):
            wait_gone(handle, grace_s)
    finally:
        os.close(handle)
