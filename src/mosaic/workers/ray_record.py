"""Record of a run's Ray session, used to clean up one that a killed worker left behind.

`ray.json` is in the run folder from before Ray's first process starts until after its last one ends. Only the
supervisor may write state.json, so the session has its own file: after a `kill -9` it tells the next attempt what to
remove before it starts anything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TypeAlias

from mosaic.runtimes.ray.session import Record, clean_up, ray_session
from mosaic.store.atomic import write_atomic
from mosaic.store.run_folder import RunFolder
from mosaic.workers.context import WorkerContext

RAY = "ray.json"
StartRay: TypeAlias = Callable[[int, str | None], None]  # number of CPUs; address or None: this machine


@contextmanager
def ray_of_run(context: WorkerContext) -> Iterator[StartRay]:
    """Yield a function that starts Ray for this attempt, if needed; everything is removed when the block is left."""
    folder = context.folder
    clear_session(folder)

    def warn(message: str) -> None:
        context.report(kind="alert", message=message)

    with ExitStack() as stack:

        def start(cpus: int, address: str | None) -> None:
            context.stage("starting Ray" if address is None else f"joining the Ray cluster at {address}")
            stack.callback(clear_session, folder)
            stack.enter_context(ray_session(cpus, address, partial(_keep, folder), warn=warn))

        yield start


def clear_session(folder: RunFolder) -> None:
    """End a recorded session and delete its record; do nothing if no session was left.

    The record of an imported run is about another machine, and was written by another user, so it is only deleted.
    """
    file = folder.path / RAY
    if not file.exists():
        return
    if not folder.is_imported():
        clean_up(json.loads(file.read_text()))
    file.unlink()


def _keep(folder: RunFolder, record: Record) -> None:
    write_atomic(folder.path / RAY, json.dumps(record) + "\n")
