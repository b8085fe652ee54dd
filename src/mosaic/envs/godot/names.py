"""Names that processes of one user share on this machine: sockets that listen under one, and names that are held.

On Linux a name is in the kernel, and is free when its process ends. Elsewhere it is a file in a folder that only this
user can enter, with a short path: macOS allows 103 bytes.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import select
import socket
import stat
import struct
import sys
from pathlib import Path

from mosaic.core.errors import MosaicError
from mosaic.core.system import PORTABLE

_CREDENTIALS = struct.Struct("3i")  # pid, uid and gid of the process at the other end of a socket
_TEMPORARY = Path("/tmp")  # the same for all processes of a user, unlike $TMPDIR


def _address(name: str) -> str:
    """Return the address of a Unix socket for a name of this user."""
    if not PORTABLE:
        return f"\0mosaic-{os.getuid()}-{name}"
    return str(_private_folder() / hashlib.sha256(name.encode()).hexdigest()[:24])


def _private_folder() -> Path:
    folder = _TEMPORARY / f"mosaic-{os.getuid()}"
    folder.mkdir(0o700, exist_ok=True)
    facts = folder.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise MosaicError(f"{folder} is not a folder that only you can enter. Remove it; Mosaic creates it again.")
    return folder


class LocalListener:
    """Socket that listens under a name; OSError (EADDRINUSE) if another process does.

    One thread accepts and closes it; `stop` ends that from another one, as closing a socket wakes no thread on macOS.
    """

    def __init__(self, name: str) -> None:
        self._name: str | None = name
        self._woken, self._waking = socket.socketpair()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            _bind(self._socket, _address(name))
            self._socket.listen(8)
        except BaseException:
            self._name = None  # another process's
            self.close()
            raise

    def accept(self) -> socket.socket | None:
        """Return the next connection; None if `stop` was called."""
        poll = select.poll()
        poll.register(self._socket, select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        if self._woken.fileno() in dict(poll.poll()):
            return None
        return self._socket.accept()[0]

    def stop(self) -> None:
        self._waking.close()
        self._release()

    def close(self) -> None:
        """Free the name and the sockets; may be called twice."""
        self._release()
        for each in (self._socket, self._woken, self._waking):
            each.close()

    def _release(self) -> None:
        name, self._name = self._name, None
        if name is not None:
            release_name(name)


def connect_local(name: str, timeout_s: float) -> socket.socket | None:
    """Connect to the socket that listens under a name; None if there is none."""
    asking = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    asking.settimeout(timeout_s)
    try:
        asking.connect(_address(name))
    except (ConnectionRefusedError, FileNotFoundError):
        asking.close()
        return None
    except BaseException:
        asking.close()
        raise
    return asking


def _bind(listener: socket.socket, address: str) -> None:
    try:
        listener.bind(address)
    except OSError as error:
        if not PORTABLE or error.errno != errno.EADDRINUSE or _is_served(address):
            raise
        os.unlink(address)  # left by a process that was killed
        listener.bind(address)


def _is_served(address: str) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(address) not in (errno.ECONNREFUSED, errno.ENOENT)


def hold_name(name: str) -> int | None:
    """Hold a name until the descriptor is closed or this process ends; None if a process of this user holds it."""
    if PORTABLE:
        return _hold_file(f"{_address(name)}.lock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as holder:
        try:
            holder.bind(_address(name))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return None
        return holder.detach()


def _hold_file(path: str) -> int | None:
    """Lock a file that its holders remove: one that was removed meanwhile holds nothing."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:  # removed between the two calls
            pass
        os.close(descriptor)


def release_name(name: str) -> None:
    """Remove what a name leaves behind; its holder calls this before it closes its socket or descriptor."""
    if PORTABLE:
        for path in (_address(name), f"{_address(name)}.lock"):
            Path(path).unlink(missing_ok=True)


def is_same_user(peer: socket.socket) -> bool:
    """Return whether the process at the other end of a Unix socket is of this user."""
    if sys.platform == "linux" and not PORTABLE:
        credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(credentials)[1]) == os.getuid()
    return True  # no other user can enter the folder
