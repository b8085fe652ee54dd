"""Environment of the runs that a trial's actor starts: the user's, not Ray's.

Ray adds variables to its processes that would change a run (threads, addresses, the mark by which a session's leftovers
are found and killed), and moves them to folders that vanish. The driver records what was there before.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

_NAMES = "MOSAIC_TUNE_VARIABLES"


@contextmanager
def remembered() -> Iterator[None]:
    """Record the names of the user's environment variables, for Ray to be started with."""
    os.environ[_NAMES] = "\n".join(os.environ)
    try:
        yield
    finally:
        os.environ.pop(_NAMES, None)


def return_to(working_folder: str) -> None:
    """Restore the user's variables and working folder in an actor, before it starts a run."""
    kept = os.environ.get(_NAMES)
    if kept is not None:
        names = set(kept.split("\n"))
        for name in [name for name in os.environ if name not in names]:
            del os.environ[name]
    os.chdir(working_folder)
