"""Where a run's Ray session is written down, and how one that a killed worker left is cleared away.

`ray.json` stands in the run folder from before Ray's first process until after its last one. Only the supervisor may
write state.json, so the session has a file of its own: there after a `kill -9`, it says what the next attempt removes
before it starts anything.
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

RAY = "ray.json"
StartRay: TypeAlias = Callable[[int, str | None], None]  # with so many CPUs, here or at an address


@contextmanager
def ray_of_run(folder: RunFolder) -> Iterator[StartRay]:
    """The way to start Ray for this attempt, if it is needed; gone without a trace when the block is left."""
    clear_session(folder)
    with ExitStack() as stack:

        def start(cpus: int, address: str | None) -> None:
            stack.callback(clear_session, folder)
            stack.enter_context(ray_session(cpus, address, partial(_keep, folder)))

        yield start


def clear_session(folder: RunFolder) -> None:
    """Ends what is recorded and forgets it; does nothing where no session was left.

    What an imported run names is of another machine, and was written by somebody else.
    """
    file = folder.path / RAY
    if not file.exists():
        return
    if not folder.is_imported():
        clean_up(json.loads(file.read_text()))
    file.unlink()


def _keep(folder: RunFolder, record: Record) -> None:
    write_atomic(folder.path / RAY, json.dumps(record) + "\n")
