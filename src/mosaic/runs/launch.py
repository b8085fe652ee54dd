"""Start of an attempt under its own supervisor, and waiting for a run's state from other processes."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from time import monotonic

from mosaic.core.child_process import module_command
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.interrupts import raise_if_pressed
from mosaic.core.proc import wait_gone
from mosaic.core.system import PORTABLE, open_process
from mosaic.runs.daemonize import HELD
from mosaic.runs.processes import MARK, is_alive
from mosaic.store.archives.trust import VARIABLE
from mosaic.store.lock import held
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import ENDED, RunState, read_state

_LOOK_EVERY_S = 0.05


class RunAliveError(InputError):
    """Error for a run that another process holds or has just started."""


class StartError(MosaicError):
    """Error for a supervisor that could not start the run."""


def start_attempt(folder: RunFolder, attempt: int, *, trust: bool = False, inherited: tuple[int, ...] = ()) -> None:
    """Return once the worker process exists and commands are read; of several concurrent callers, one succeeds.

    The supervisor keeps the `inherited` descriptors open until the attempt has ended.
    """
    argv = module_command("mosaic.runs.supervisor", str(folder.path), str(attempt))
    environment = {name: value for name, value in os.environ.items() if name != MARK}
    if trust:
        environment[VARIABLE] = "1"
    supervisor = subprocess.run(
        argv,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=inherited,
        process_group=0,  # Ctrl-C in the terminal is for the caller, which stops the run once it is started
        text=True,
        errors="replace",
        check=False,
    )
    complaint = supervisor.stderr.strip()
    match supervisor.returncode:
        case 0:
            return
        case code if code == HELD:
            raise RunAliveError(complaint)
        case code:
            raise StartError(complaint or f"The supervisor of the run {folder.run_id} ended with exit code {code}.")


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
    if PORTABLE or supervisor is None or record.state in ENDED:  # a handle would cost a thread at each look
        time.sleep(_LOOK_EVERY_S)
        return
    try:
        handle = open_process(supervisor.pid)
    except ProcessLookupError:
        return
    try:
        if is_alive(supervisor):
            wait_gone(handle, _LOOK_EVERY_S)
    finally:
        os.close(handle)
