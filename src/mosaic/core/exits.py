"""Guard that turns exits called by foreign code into errors: a policy or an env must not end its host process."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from mosaic.core.errors import MosaicError


class ProcessExitError(MosaicError):
    """Attempt of foreign code to end the process."""


_lock = threading.Lock()
_blocks = 0  # open blocks in all threads
_mine = threading.local()  # `blocks`: open blocks of this thread
_exit = os._exit


@contextmanager
def exits_refused(who: str = "Foreign code") -> Iterator[None]:
    """Raise ProcessExitError where code in the block calls `sys.exit()` or `os._exit()`.

    `who` is named where the exit was not caught earlier. Other threads, such as the one that ends a process with its
    parent, and forked children are not affected: they must be able to exit.
    """
    global _blocks
    _mine.blocks = getattr(_mine, "blocks", 0) + 1
    with _lock:
        _blocks += 1
        if _blocks == 1:
            owner = os.getpid()
            os._exit = lambda status: _refuse(status, owner)
    try:
        yield
    except SystemExit as error:
        raise ProcessExitError(f"{who} {describe_exit(error)}.") from error
    finally:
        _mine.blocks -= 1
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                os._exit = _exit


def describe_exit(error: SystemExit) -> str:
    return f"tried to end the process with sys.exit({'' if error.code is None else repr(error.code)})"


def _refuse(status: int, owner: int) -> NoReturn:
    if os.getpid() != owner or not getattr(_mine, "blocks", 0):
        _exit(status)
    raise ProcessExitError(f"Tried to end the process with os._exit({status}).")
