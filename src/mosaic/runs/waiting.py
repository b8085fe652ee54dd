"""Waiting for a run's state from other processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from time import monotonic

from mosaic.core.interrupts import raise_if_pressed
from mosaic.core.proc import wait_gone
from mosaic.runs.processes import is_alive
from mosaic.store.lock import held
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, RunState, read_state

_LOOK_EVERY_S = 0.05


def wait_until(folder: RunFolder, true: Callable[[RunState], bool], timeout_s: float | None) -> RunState | None:
    """Return the state in which it was true, or None after the timeout."""
    deadline_s = None if timeout_s is None else monotonic() + timeout_s
    while True:
        record = read_state(folder)
        if true(record):
            return record
        if deadline_s is not None and monotonic() >= deadline_s:
            return None
        sleep_between_polls(record)


def has_ended(folder: RunFolder, record: RunState) -> bool:
    """Return whether the run has ended and no process holds it, so that it may be started again or deleted."""
    return record.state in ENDED and not held(folder)


def sleep_between_polls(record: RunState) -> None:
    """Sleep a moment, cut short by the end of the run, because another process's file has to be polled."""
    raise_if_pressed()
    supervisor = record.attempts[-1].supervisor if record.attempts else None
    if supervisor is None or record.state in ENDED:
        time.sleep(_LOOK_EVERY_S)
        return
    try:
        handle = os.pidfd_open(supervisor.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(supervisor):
            wait_gone(handle, _LOOK_EVERY_S)
    finally:
        os.close(handle)
