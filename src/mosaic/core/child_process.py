"""Child processes that import nothing from the working directory while they start, and their environment variables."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from multiprocessing import resource_tracker
from multiprocessing.context import SpawnProcess
from types import ModuleType

from mosaic.core.user_code import check_not_imported

_VARIABLE, _OURS = "PYTHONSAFEPATH", "mosaic"


class ChildProcess(SpawnProcess):
    """Spawned process that ignores Ctrl-C; its parent handles it and ends the child.

    Spawned, not forked: a fork would copy threads, engines and pictures in an inconsistent state.

    `imports_script` is whether the child first runs the file that the user started, as `multiprocessing` does for
    arguments that are defined there. Without a check of `__name__` in that file, everything in it would be done again.
    """

    imports_script = True

    def start(self) -> None:
        check_not_imported("processes")
        with _safe_path(), nullcontext() if self.imports_script else _script_hidden():
            resource_tracker.ensure_running()  # starting it would unblock the signal
            with _sigint_blocked():
                super().start()

    def run(self) -> None:
        if os.environ.get(_VARIABLE) == _OURS:
            del os.environ[_VARIABLE]  # programs started by this process belong to the user
        super().run()


@contextmanager
def _safe_path() -> Iterator[None]:
    if sys.flags.safe_path or os.environ.get(_VARIABLE):
        yield
        return
    os.environ[_VARIABLE] = _OURS
    try:
        yield
    finally:
        del os.environ[_VARIABLE]


@contextmanager
def _script_hidden() -> Iterator[None]:
    """Take the place of the file that the user started: `multiprocessing` finds no file there to run in the child."""
    script = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = script


@contextmanager
def _sigint_blocked() -> Iterator[None]:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group that a process leads, wait for the process, and close its pipes."""
    with suppress(ProcessLookupError, PermissionError):  # raised by some systems for a group whose members are all dead
        os.killpg(process.pid, signal.SIGKILL)  # not yet waited for, so the pid is still valid
    process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()


def module_command(module: str, *arguments: str) -> list[str]:
    """Return the command line that runs a Mosaic module in its own process.

    With `-m`, Python puts the working directory in front of `sys.path`. Without `-P`, a file there named `mosaic.py` or
    `random.py` would replace the module of that name.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


@contextmanager
def restored(*names: str) -> Iterator[None]:
    """Restore environment variables when the block ends, removing those that were not set before."""
    before = {name: os.environ.get(name) for name in names}
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
