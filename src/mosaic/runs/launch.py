"""Starting of an attempt in the background, under its own supervisor."""

from __future__ import annotations

import os
import subprocess

from mosaic.core.child_process import module_command
from mosaic.core.errors import InputError, MosaicError
from mosaic.runs.processes import MARK
from mosaic.runs.supervisor import HELD
from mosaic.store.archives.trust import VARIABLE
from mosaic.store.run_folder import RunFolder


class RunAliveError(InputError):
    """Error for a run that another process holds or has just started."""


class StartError(MosaicError):
    """Error for a supervisor that could not start the run."""


def start_attempt(folder: RunFolder, attempt: int, *, trust: bool = False) -> None:
    """Return once the worker process exists and commands are read; of several concurrent callers, one succeeds."""
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
