"""Parallel update of the columns of many long runs, with one process per core.

    python -m mosaic.telemetry.curves.prefetch RUN_FOLDER...

JSON is decoded while holding the GIL, so threads would take turns and block the threads that serve pages.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Lock

from mosaic.core.child_process import module_command
from mosaic.telemetry.curves.curves import Curves

WORTH_BYTES = 48 << 20  # less is read faster than a process starts
_one_at_a_time = Lock()


def bring_up_to_date(run_folders: Sequence[Path], processes: int, worth_bytes: int = WORTH_BYTES) -> int:
    """Read ahead what queries would have to read, if that is much; return the number of processes used.

    A process that fails is not an error here: the next query of the curve reads what is missing and reports the
    problem.
    """
    with _one_at_a_time:
        unread = {folder: Curves(folder).unread_bytes() for folder in run_folders if os.access(folder, os.W_OK)}
        waiting = sorted((folder for folder in unread if unread[folder]), key=unread.__getitem__, reverse=True)
        processes = min(processes, len(waiting))
        if processes < 2 or sum(unread.values()) < worth_bytes:
            return 0
        command = module_command("mosaic.telemetry.curves.prefetch")
        shares = [map(str, waiting[first::processes]) for first in range(processes)]
        reading = [subprocess.Popen([*command, *share], stdin=subprocess.DEVNULL) for share in shares]
        for process in reading:
            process.wait()
        return processes


def main(run_folders: Sequence[str]) -> None:
    for folder in run_folders:
        Curves(Path(folder)).catch_up()


if __name__ == "__main__":
    main(sys.argv[1:])
