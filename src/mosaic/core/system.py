"""System calls that Linux and macOS have in different forms: process handles, signals, locks, room on disk.

Every call that exists on Linux alone is made here or in `mosaic.core.proc`, `mosaic.core.machine`,
`mosaic.core.parent_death` and `mosaic.envs.godot.names`, each with a portable form beside it. `MOSAIC_PORTABLE=1` uses
the portable forms on Linux too: tests run with it. Conditions name `sys.platform` so that mypy checks them for macOS.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import resource
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from time import monotonic

VARIABLE = "MOSAIC_PORTABLE"
PORTABLE = sys.platform != "linux" or os.environ.get(VARIABLE) == "1"
_FLOCK = "hhqqi4x"  # struct flock of 64-bit Linux: type, whence, start, length, pid
_LOOK_EVERY_S = 0.02
_LOOK_AT_TERMINAL_EVERY_S = 0.5
_LOCK_WITHIN_S = 0.25  # a reader that tests a lock has it for microseconds
_MOST_FILES = 1 << 16
_ZEROS = bytes(1 << 16)
_PR_SET_CHILD_SUBREAPER = 36
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
POPULATE: int = getattr(mmap, "MAP_POPULATE", 0)  # of mmap: touch all pages at once


def open_process(pid: int) -> int:
    """Return a descriptor that becomes readable when the process ends; raise ProcessLookupError if it is gone.

    On Linux it is a pidfd, which unlike a PID can never refer to another process. Elsewhere a thread looks every 20 ms.
    """
    if sys.platform == "linux" and not PORTABLE:
        return os.pidfd_open(pid)
    with suppress(PermissionError):  # a process of another user
        os.kill(pid, 0)
    near, far = os.pipe()
    os.set_inheritable(near, False)
    threading.Thread(target=_watch, args=(pid, far), daemon=True, name=f"process {pid}").start()
    return near


def _watch(pid: int, far: int) -> None:
    """Close the far end of a pipe when a process has ended, or when the near end was closed."""
    from mosaic.core.proc import started_at

    started = started_at(pid)
    poll = select.poll()
    poll.register(far, select.POLLHUP)  # the other end is closed; macOS reports nothing if nothing is asked for
    try:
        while not poll.poll(_LOOK_EVERY_S * 1000):
            if started is None or started_at(pid) != started:
                return
    finally:
        os.close(far)


def send_signal(handle: int, pid: int, number: signal.Signals) -> None:
    """Send a signal to the process of a handle; its identity has been checked since the handle was opened."""
    if sys.platform == "linux" and not PORTABLE:
        signal.pidfd_send_signal(handle, number)
    else:
        os.kill(pid, number)


def wait_for_child(wait_s: float) -> None:
    """Wait until a child ends, or the time is over; SIGCHLD must be blocked."""
    if sys.platform == "linux" and not PORTABLE:
        signal.sigtimedwait([signal.SIGCHLD], wait_s)
    else:
        threading.Event().wait(wait_s)


def wait_for_hangup(terminal: int) -> None:
    """Wait until the other side of a terminal has closed it."""
    if not PORTABLE:
        waiting = select.poll()
        waiting.register(terminal, 0)  # a hang-up is always reported
        waiting.poll()
        return
    never = threading.Event()
    while True:
        try:
            termios.tcgetattr(terminal)
        except termios.error:
            return
        never.wait(_LOOK_AT_TERMINAL_EVERY_S)


def adopt_orphans() -> bool:
    """Become the subreaper: orphaned descendants are reparented to us, not to init, so no process of a run escapes.

    Return False where the system has no subreapers: orphans are then found by the mark in their environment.
    """
    if PORTABLE:
        return False
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def take_lock(descriptor: int) -> bool:
    """Take the exclusive lock of an open file, if it is free; it ends with the last process that has the file open."""
    if PORTABLE:
        return _take_flock(descriptor)
    try:
        fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _whole_file())
    except BlockingIOError:
        return False
    return True


def is_locked(descriptor: int) -> bool:
    """Return whether any process, including this one, holds the lock of this file through another descriptor."""
    if PORTABLE:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        return False
    answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, _whole_file())
    return int(struct.unpack(_FLOCK, answer)[0]) != fcntl.F_UNLCK


def _take_flock(descriptor: int) -> bool:
    """Take the lock with flock, which cannot be tested without being taken: try again while it may only be a test."""
    deadline_s, never = monotonic() + _LOCK_WITHIN_S, threading.Event()
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() > deadline_s:
                return False
            never.wait(_LOOK_EVERY_S)
        else:
            return True


def _whole_file() -> bytes:
    return struct.pack(_FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)


def allocate(descriptor: int, size: int) -> None:
    """Give a new file its room on the disk, or raise OSError where there is not enough."""
    if sys.platform == "linux" and not PORTABLE:
        os.posix_fallocate(descriptor, 0, size)
        return
    os.lseek(descriptor, 0, os.SEEK_SET)
    left = size
    while left:
        left -= os.write(descriptor, _ZEROS[:left])


def free_pages(memory: mmap.mmap, start: int, length: int) -> None:
    """Free the file's pages behind a mapping, where the system can; else the last process to close it frees them."""
    if sys.platform == "linux" and not PORTABLE:
        memory.madvise(mmap.MADV_REMOVE, start, length)


def anonymous_file() -> int:
    """Return the descriptor of a new file without a name: its room is free again when nothing uses it any more."""
    if sys.platform == "linux" and not PORTABLE:
        return os.memfd_create("mosaic", os.MFD_CLOEXEC)
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def close_files_from(first: int) -> None:
    """Close every descriptor from this one on."""
    limit = os.sysconf("SC_OPEN_MAX")
    if limit < 0 or PORTABLE:  # negative: there is no limit
        limit = _MOST_FILES if limit < 0 else min(limit, _MOST_FILES)
    os.closerange(first, limit)


def limit_address_space(size: int) -> bool:
    """Limit the memory that this process can map, and return whether the system accepted it: macOS may not."""
    try:
        resource.setrlimit(resource.RLIMIT_AS, (size, size))
    except (ValueError, OSError):
        return False
    return True


def pid_namespace() -> str:
    """Return the id of the namespace of process ids; "" where there is but one."""
    return "" if PORTABLE else os.readlink("/proc/self/ns/pid")


def boot_id() -> str:
    """Return the kernel's id of this boot; empty where there is none.

    Process ids and start times begin again with each boot. Without the boot's id, the record of a process from before
    it, or from another machine that shares the folder, may fit an unrelated process.
    """
    try:
        return kernel_value("kern.bootsessionuuid") if sys.platform == "darwin" else _BOOT_ID.read_text().strip()
    except (FileNotFoundError, PermissionError):
        return ""


@cache
def kernel_value(name: str) -> str:
    """Return a fact that the kernel of macOS keeps under this name; empty where there is none."""
    try:
        done = subprocess.run(["sysctl", "-n", name], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def install_line(debian: str, homebrew: str) -> str:
    """Return what to type to install packages of this system."""
    return f"brew install {homebrew}" if sys.platform == "darwin" else f"apt install {debian}"
