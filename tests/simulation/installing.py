"""Installation of the simulated system calls in the place of the real ones, for a number of histories.

A call that no simulated process makes, or that is about real files, goes to the real function: pytest and the
interpreter are not affected.
"""

from __future__ import annotations

import builtins
import errno
import fcntl
import gc
import io
import os
import secrets
import select
import selectors
import shutil
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.simulation.files import Poll, ProcFile, Selector, VirtualFile
from tests.simulation.kernel import FIRST_FD
from tests.simulation.syscalls import ROOT, Calls

_ON_PATHS = ("open", "stat", "lstat", "listdir", "scandir", "mkdir", "mkfifo", "unlink", "remove", "rmdir", "rename",
             "replace", "link", "chdir", "chmod", "readlink")  # fmt: skip
_ON_FDS = ("close", "read", "pread", "write", "fsync", "ftruncate", "posix_fallocate", "fstat", "set_blocking",
           "set_inheritable", "fdopen")  # fmt: skip
_ALWAYS = ("pipe", "getcwd", "getpid", "_exit", "waitpid", "kill", "killpg", "posix_spawn", "pidfd_open")


@contextmanager
def installed() -> Iterator[Calls]:
    calls = Calls()
    undo: list[tuple[Any, str, Any]] = []
    owner_thread = threading.get_ident()

    def put(owner: Any, name: str, simulated: Callable[..., Any], when: Callable[..., bool]) -> None:
        real = getattr(owner, name)

        def either(*arguments: Any, **options: Any) -> Any:
            # A thread that an earlier test left running has nothing to do with the simulation.
            if calls.kernel.current is not None and threading.get_ident() == owner_thread and when(*arguments):
                return simulated(*arguments, **options)
            return real(*arguments, **options)

        undo.append((owner, name, real))
        setattr(owner, name, either)

    for name in _ON_PATHS:
        put(os, name, getattr(calls, name), _is_simulated)
    for name in _ON_FDS:
        put(os, name, getattr(calls, name), _is_simulated)
    for name in _ALWAYS:
        put(os, name, getattr(calls, name), lambda *_: True)
    for owner in (io, builtins):
        put(owner, "open", lambda file, mode="r", *a, **k: _open(calls, file, mode), _is_simulated)
    for owner, names in (
        (fcntl, ("flock", "fcntl")),
        (signal, ("signal", "set_wakeup_fd", "pidfd_send_signal")),
        (subprocess, ("run",)),
        (secrets, ("token_hex", "token_bytes", "randbelow")),
        (time, ("monotonic", "time", "sleep", "perf_counter")),
    ):
        for name in names:
            put(owner, name, getattr(calls, name), lambda *_: True)
    put(select, "poll", lambda: Poll(calls), lambda *_: True)
    put(selectors, "DefaultSelector", lambda: Selector(calls), lambda *_: True)
    undo.append((shutil, "_use_fd_functions", shutil._use_fd_functions))  # type: ignore[attr-defined]
    shutil._use_fd_functions = False  # type: ignore[attr-defined]
    rebound = _rebind_clocks(undo)
    try:
        yield calls
    finally:
        for owner, name, real in reversed(undo):
            setattr(owner, name, real)
        for function, defaults in rebound:
            function.__defaults__ = defaults
        gc.collect(0)


def _rebind_clocks(undo: list[tuple[Any, str, Any]]) -> list[tuple[Any, Any]]:
    """Names such as `from time import monotonic` and defaults such as `clock=time.time` hold the real functions."""
    replaced = {real: getattr(owner, name) for owner, name, real in undo if owner is time}
    rebound: list[tuple[Any, Any]] = []
    for module_name, module in list(sys.modules.items()):
        if not module_name.startswith("mosaic."):
            continue
        for name, value in list(vars(module).items()):
            if isinstance(value, types.BuiltinFunctionType) and value in replaced:
                undo.append((module, name, value))
                setattr(module, name, replaced[value])
            for function in vars(value).values() if isinstance(value, type) else (value,):
                defaults = getattr(function, "__defaults__", None)
                if (
                    isinstance(function, types.FunctionType)
                    and defaults
                    and any(_is_clock(d, replaced) for d in defaults)
                ):
                    rebound.append((function, defaults))
                    function.__defaults__ = tuple(replaced[d] if _is_clock(d, replaced) else d for d in defaults)
    return rebound


def _is_clock(value: Any, clocks: dict[Any, Any]) -> bool:
    return isinstance(value, types.BuiltinFunctionType) and value in clocks


def _is_simulated(what: Any = ".", *_: Any) -> bool:
    if isinstance(what, int):
        return what >= FIRST_FD
    path = os.fspath(what) if not isinstance(what, bytes) else ""
    return path.startswith((ROOT, "/proc"))


def _open(calls: Calls, file: Any, mode: str) -> VirtualFile:
    path = "" if isinstance(file, int) else os.fspath(file)
    if not path.startswith("/proc/"):
        return calls.io_open(file, mode)
    calls.kernel.call("proc")
    if path == "/proc/sys/kernel/random/boot_id":
        return ProcFile(f"boot-{calls.kernel.boots}\n".encode(), mode)
    _, _, number, what = path.split("/")
    process = calls.kernel.processes.get(int(number))
    if process is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    if what == "environ":
        return ProcFile(b"\0".join(f"{name}={value}".encode() for name, value in process.environ.items()), mode)
    ticks = os.sysconf("SC_CLK_TCK")
    fields = ["S" if process.alive else "Z", str(process.parent), *["0"] * 17, str(round(process.start_time * ticks))]
    return ProcFile(f"{number} (python) {' '.join([*fields, '0', '2560'])}".encode(), mode)
