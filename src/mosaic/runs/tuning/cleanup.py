"""Process that cleans up after a search whose driver was killed: `python -m mosaic.runs.tuning.cleanup FOLDER`.

Its standard input is a pipe whose other end only the driver holds: end of file without a message means that the driver
is dead.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic.core.child_process import module_command
from mosaic.runs.run import Run
from mosaic.runs.trainer import Trainer
from mosaic.runs.tuning.folder import SearchFolder
from mosaic.store.state import LIVE, State

_UNENDED = LIVE | {State.QUEUED}


def clear_search(folder: SearchFolder) -> None:
    """End Ray first, which could start further runs; then stop and save every run of the search."""
    if folder.ray.exists():
        from mosaic.runtimes.ray.session import clean_up

        clean_up(json.loads(folder.ray.read_text()))
        folder.ray.unlink()
    alive = [run for run in runs_of(folder) if run.state in _UNENDED]
    for run in alive:
        run.stop(reason="its search ended", wait=False)
    for run in alive:
        run.wait()


def runs_of(folder: SearchFolder) -> list[Run]:
    return Trainer(folder.home).runs(group=folder.search_id)


_DONE = b"done"


@contextmanager
def cleanup_process(folder: SearchFolder) -> Iterator[None]:
    """Run a cleanup process that reacts to our death during the block; clean up ourselves after it."""
    command = module_command("mosaic.runs.tuning.cleanup", str(folder.path))
    with folder.cleanup_log.open("ab") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True, cwd="/"
        )
    try:
        yield
    finally:
        clear_search(folder)
        process.communicate(_DONE)


def main() -> None:
    folder = SearchFolder(Path(sys.argv[1]))
    if sys.stdin.buffer.read() != _DONE:
        clear_search(folder)


if __name__ == "__main__":
    main()
