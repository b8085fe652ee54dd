"""Process that supervises a run: `python -m mosaic.runs.supervisor RUN_FOLDER [ATTEMPT]`.

It takes the run's lock, goes into the background, starts the worker, and exits when the run has ended. A first attempt
is started before anything heavy is imported: users wait for it, and the worker's own start takes time.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from mosaic.core.files import sync_folder
from mosaic.core.system import adopt_orphans, boot_id
from mosaic.runs.control import open_control
from mosaic.runs.daemonize import HELD, LOG, detach
from mosaic.runs.processes import look
from mosaic.runs.worker_process import WorkerProcess, enter
from mosaic.store.atomic import Reserve, write_atomic
from mosaic.store.lock import RunLock
from mosaic.store.run_folder import RunFolder


def main() -> int:
    """Start an attempt; with ATTEMPT only that one, as another starter may have been faster and its attempt over."""
    if len(sys.argv) not in (2, 3):
        return _refuse("Type: python -m mosaic.runs.supervisor RUN_FOLDER [ATTEMPT]", 2)
    folder = RunFolder(Path(sys.argv[1]).absolute())
    if not folder.exists():
        return _refuse(f"There is no run in '{folder.path}'.", 2)
    lock = RunLock(folder)
    if not lock.try_acquire():
        return _refuse(f"The run {folder.run_id} is already alive: another process holds its lock.", HELD)
    record = json.loads(folder.state.read_bytes())
    if len(sys.argv) == 3 and int(sys.argv[2]) != len(record["attempts"]) + 1:
        return _refuse(f"The run {folder.run_id} was started by another process in the meantime.", HELD)
    ready = detach(folder.path / LOG)
    adopt_orphans()
    fifo = open_control(folder)  # before the run is recorded as live: from then on commands are sent
    worker = _start_first(folder, record) if record["state"] == "queued" and not record["attempts"] else None

    from mosaic.runs.supervision import Supervision

    Supervision(folder, fifo, worker).run(ready)
    return 0  # the kernel releases the lock, as the very last thing that others see of us


def _start_first(folder: RunFolder, record: dict[str, Any]) -> WorkerProcess:
    """Record the attempt, then start its worker. What cannot be recorded is not started."""
    me = look(os.getpid())
    assert me is not None
    now = time.time()
    supervisor = {"pid": me.pid, "start_time": me.start_time, "boot": boot_id()}
    attempt = {"number": 1, "supervisor": supervisor, "started": now}
    begun = {**record, "state": "starting", "updated": now, "attempts": [attempt]}
    Reserve(folder).take()
    write_atomic(folder.state, json.dumps(begun, indent=1) + "\n")
    sync_folder(folder.path.parent)  # the process that made the run may have been killed before it synced
    enter(record["working_folder"], folder)
    return WorkerProcess(folder, 1)


def _refuse(text: str, exit_code: int) -> int:
    print(text, file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
