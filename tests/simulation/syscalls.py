"""System calls of simulated processes, under the names of the functions that they replace."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import struct
import subprocess
from collections.abc import Callable
from typing import Any

from tests.simulation.disk import PIPE_CAPACITY, Node
from tests.simulation.files import Entries, Entry, VirtualFile
from tests.simulation.kernel import Kernel, Killed, OpenFile, Pipe, Process

ROOT = "/simulated"
_FLOCK = "hhqqi4x"


class Calls:
    """One method per system call, under the name of the function it replaces."""

    def __init__(self) -> None:
        self.kernel = Kernel(0)
        self.spawn_worker: Callable[[Process, list[str], dict[str, str]], int]
        self.renamed: Callable[[str, str], None] = lambda source, target: None
        self.start_supervisor: Callable[[list[str]], subprocess.CompletedProcess[str]]

    # Descriptors

    def _file(self, fd: int) -> OpenFile:
        assert self.kernel.current is not None
        file = self.kernel.current.process.files.get(fd)
        if file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return file

    def open(self, path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        path, disk = os.fspath(path), self.kernel.disk
        process = self.kernel.call("open", effect=bool(flags & os.O_CREAT))
        try:
            node = disk.find(path)
        except FileNotFoundError:
            if not flags & os.O_CREAT:
                raise
            node = disk.make(path, "file")
            self.kernel.say(f"creates {_short(path)}")
        else:
            if flags & os.O_CREAT and flags & os.O_EXCL:
                raise OSError(errno.EEXIST, os.strerror(errno.EEXIST), path)
            access = flags & os.O_ACCMODE
            if node.kind == "folder" and access != os.O_RDONLY:
                raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), path)
            if node.kind == "fifo":
                if access == os.O_WRONLY and not node.readers:
                    raise OSError(errno.ENXIO, os.strerror(errno.ENXIO), path)
                kind = "fifo" if access == os.O_RDWR else "fifo-write"
                return self.kernel.new_fd(process, OpenFile(kind, node, path, blocking=False))
            if flags & os.O_TRUNC:
                disk.truncate(node, 0)
        file = OpenFile(node.kind, node, path, append=bool(flags & os.O_APPEND))
        return self.kernel.new_fd(process, file)

    def close(self, fd: int) -> None:
        process = self.kernel.call("close")
        self._file(fd)
        self.kernel.close(process, fd)

    def read(self, fd: int, size: int) -> bytes:
        self.kernel.call("read")
        file = self._file(fd)
        if file.kind == "fifo":
            assert file.node is not None
            return self._take(file, file.node.data, size, lambda: False)
        if file.pipe is not None:
            pipe = file.pipe
            return self._take(file, pipe.data, size, lambda: not pipe.writers)
        assert file.node is not None
        if file.node.kind == "folder":
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), file.path)
        found = bytes(file.node.data[file.position : file.position + size])
        file.position += len(found)
        return found

    def _take(self, file: OpenFile, data: bytearray, size: int, ended: Callable[[], bool]) -> bytes:
        if not data and not ended():
            if not file.blocking:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            self.kernel.wait(lambda: bool(data) or ended(), None)
        found = bytes(data[:size])
        del data[:size]
        return found

    def pread(self, fd: int, size: int, start: int) -> bytes:
        self.kernel.call("pread")
        node = self._file(fd).node
        assert node is not None
        return bytes(node.data[start : start + size])

    def write(self, fd: int, data: Any) -> int:
        self.kernel.call("write", effect=True)
        file, data = self._file(fd), bytes(data)
        if file.pipe is not None:
            if not file.pipe.readers:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            if len(file.pipe.data) + len(data) > PIPE_CAPACITY:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
            file.pipe.data += data
            return len(data)
        assert file.node is not None
        if file.kind.startswith("fifo"):
            if not file.node.readers:
                raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
            file.node.data += data
            self.kernel.say(f"sends {data!r}")
            return len(data)
        at = len(file.node.data) if file.append else file.position
        if len(data) > 1 and self.kernel.rng.random() < 0.02:  # a write may always take only a part
            data = data[: self.kernel.rng.randrange(1, len(data))]
        written = self.kernel.disk.write(file.node, data, at)
        file.position = at + written
        self.kernel.say(f"writes {written} bytes to {_short(file.path)}")
        return written

    def fsync(self, fd: int) -> None:
        self.kernel.call("fsync", effect=True)
        file = self._file(fd)
        assert file.node is not None
        self.kernel.disk.sync(file.node)

    def ftruncate(self, fd: int, size: int) -> None:
        self.kernel.call("ftruncate", effect=True)
        file = self._file(fd)
        assert file.node is not None
        self.kernel.disk.truncate(file.node, size)
        self.kernel.say(f"cuts {_short(file.path)} to {size} bytes")

    def posix_fallocate(self, fd: int, start: int, size: int) -> None:
        self.kernel.call("posix_fallocate", effect=True)
        node = self._file(fd).node
        assert node is not None
        self.kernel.disk.reserve(node, start + size)

    def fstat(self, fd: int) -> os.stat_result:
        self.kernel.call("fstat")
        node = self._file(fd).node
        assert node is not None
        return self.kernel.disk.status(node)

    def set_blocking(self, fd: int, blocking: bool) -> None:
        self._file(fd).blocking = blocking

    def set_inheritable(self, fd: int, inheritable: bool) -> None:
        self._file(fd)

    def pipe(self) -> tuple[int, int]:
        process = self.kernel.call("pipe")
        pipe = Pipe(writers=1, readers=1)
        reader = self.kernel.new_fd(process, OpenFile("pipe-read", pipe=pipe))
        return reader, self.kernel.new_fd(process, OpenFile("pipe-write", pipe=pipe))

    def fdopen(self, fd: int, mode: str = "r", *_: Any, **__: Any) -> VirtualFile:
        return VirtualFile(self, fd, mode)

    def io_open(self, file: Any, mode: str = "r", *_: Any, **__: Any) -> VirtualFile:
        if isinstance(file, int):
            return VirtualFile(self, file, mode)
        new = os.O_WRONLY | os.O_CREAT
        flags = {"r": os.O_RDONLY, "w": new | os.O_TRUNC, "x": new | os.O_EXCL, "a": new | os.O_APPEND}[mode[0]]
        if "+" in mode:
            flags = flags & ~os.O_ACCMODE | os.O_RDWR
        fd = self.open(file, flags)
        if self._file(fd).kind == "folder":
            self.close(fd)
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(file))
        return VirtualFile(self, fd, mode)

    # Names

    def stat(self, path: Any, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        if isinstance(path, int):
            return self.fstat(path)
        self.kernel.call("stat")
        return self.kernel.disk.status(self.kernel.disk.find(os.fspath(path)))

    def lstat(self, path: Any, *, dir_fd: int | None = None) -> os.stat_result:
        return self.stat(path)

    def readlink(self, path: Any, *, dir_fd: int | None = None) -> str:
        self.kernel.disk.find(os.fspath(path))
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), os.fspath(path))

    def _names(self, path: str) -> dict[str, Node]:
        self.kernel.call("listdir")
        node = self.kernel.disk.find(path)
        if node.kind != "folder":
            raise OSError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), path)
        return dict(sorted(node.entries.items()))

    def listdir(self, path: Any = ".") -> list[str]:
        if os.fspath(path) == "/proc":
            self.kernel.call("listdir")
            return [str(pid) for pid in sorted(self.kernel.processes)]
        return list(self._names(os.fspath(path)))

    def scandir(self, path: Any = ".") -> Entries:
        path = os.fspath(path)
        return Entries([Entry(path, name, node) for name, node in self._names(path).items()])

    def mkdir(self, path: Any, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        self.kernel.call("mkdir", effect=True)
        self.kernel.disk.make(os.fspath(path), "folder")
        self.kernel.say(f"makes folder {_short(path)}")

    def mkfifo(self, path: Any, mode: int = 0o666) -> None:
        self.kernel.call("mkfifo", effect=True)
        self.kernel.disk.make(os.fspath(path), "fifo")

    def unlink(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.kernel.call("unlink", effect=True)
        self.kernel.disk.remove(os.fspath(path))
        self.kernel.say(f"removes {_short(path)}")

    remove = unlink

    def rmdir(self, path: Any, *, dir_fd: int | None = None) -> None:
        self.kernel.call("rmdir", effect=True)
        self.kernel.disk.remove(os.fspath(path), folder=True)

    def rename(self, source: Any, target: Any, **_: Any) -> None:
        self.kernel.call("rename", effect=True)
        self.kernel.disk.rename(os.fspath(source), os.fspath(target))
        self.kernel.say(f"renames {_short(source)} to {_short(target)}")
        self.renamed(os.fspath(source), os.fspath(target))

    replace = rename

    def link(self, source: Any, target: Any, **_: Any) -> None:
        self.kernel.call("link", effect=True)
        self.kernel.disk.link(os.fspath(source), os.fspath(target))

    def chmod(self, path: Any, mode: int, **_: Any) -> None:
        self.kernel.call("chmod")
        self.kernel.disk.find(os.fspath(path))

    def chdir(self, path: Any) -> None:
        self.kernel.call("chdir")

    def getcwd(self) -> str:
        return ROOT

    # Locks

    def flock(self, fd: int, how: int) -> None:
        self.kernel.call("flock")
        file = self._file(fd)
        node, exclusive = file.node, bool(how & fcntl.LOCK_EX)
        assert node is not None

        def free() -> bool:
            others = [held for owner, held in node.flocks.items() if owner is not file]
            return not others or (not exclusive and not any(others))

        if not free():
            if how & fcntl.LOCK_NB:
                raise BlockingIOError(errno.EWOULDBLOCK, os.strerror(errno.EWOULDBLOCK))
            self.kernel.wait(free, None)
        node.flocks[file] = exclusive

    def fcntl(self, fd: int, command: int, argument: Any = 0) -> Any:
        self.kernel.call("fcntl")
        file = self._file(fd)
        assert file.node is not None
        other = file.node.lock not in (None, file)
        if command == fcntl.F_OFD_GETLK:
            return struct.pack(_FLOCK, fcntl.F_WRLCK if other else fcntl.F_UNLCK, 0, 0, 0, 0)
        assert command == fcntl.F_OFD_SETLK
        if other:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        file.node.lock = file
        self.kernel.say(f"locks {_short(file.path)}")
        return argument

    # Processes

    def getpid(self) -> int:
        assert self.kernel.current is not None
        return self.kernel.current.process.pid

    def _exit(self, code: int) -> None:
        self.kernel.die(self.kernel.call("exit"), code)
        raise Killed  # no handler of the process may see it: every further call of it raises this again

    def waitpid(self, pid: int, options: int) -> tuple[int, int]:
        process = self.kernel.call("waitpid")
        children = [each for each in self.kernel.processes.values() if each.parent == process.pid]
        if not children:
            raise ChildProcessError(errno.ECHILD, os.strerror(errno.ECHILD))
        for child in children:
            if not child.alive:
                del self.kernel.processes[child.pid]
                assert child.status is not None
                return child.pid, -child.status if child.status < 0 else child.status << 8
        return 0, 0

    def kill(self, pid: int, number: int) -> None:
        self.kernel.call("kill", effect=True)
        process = self.kernel.processes.get(pid)
        if process is None:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        self.kernel.deliver(process, number)

    def killpg(self, group: int, number: int) -> None:
        self.kernel.call("killpg", effect=True)
        members = [each for each in self.kernel.processes.values() if each.group == group and each.alive]
        if not members:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        for process in members:
            self.kernel.deliver(process, number)

    def posix_spawn(self, path: Any, argv: list[str], environ: dict[str, str], **_: Any) -> int:
        process = self.kernel.call("posix_spawn", effect=True)
        return self.spawn_worker(process, argv, environ)

    def pidfd_open(self, pid: int, flags: int = 0) -> int:
        process = self.kernel.call("pidfd_open")
        if pid not in self.kernel.processes:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        return self.kernel.new_fd(process, OpenFile("pidfd", process=self.kernel.processes[pid]))

    def pidfd_send_signal(self, fd: int, number: int, *_: Any) -> None:
        self.kernel.call("pidfd_send_signal", effect=True)
        target = self._file(fd).process
        assert target is not None
        if not target.alive:
            raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        self.kernel.deliver(target, number)

    def signal(self, number: int, handler: Any) -> Any:
        process = self.kernel.call("signal")
        before = process.handlers.get(number, signal.SIG_DFL)
        process.handlers[number] = handler
        return before

    def set_wakeup_fd(self, fd: int, *, warn_on_full_buffer: bool = True) -> int:
        process = self.kernel.call("set_wakeup_fd")
        before, process.wakeup = process.wakeup, fd
        return before

    def run(self, argv: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        if "mosaic.runs.supervisor" not in argv:
            raise FileNotFoundError(errno.ENOENT, "there are no other programs on this machine", argv[0])
        return self.start_supervisor(argv)

    def is_readable(self, fd: int) -> bool:
        assert self.kernel.current is not None
        file = self.kernel.current.process.files[fd]
        if file.kind == "pidfd":
            assert file.process is not None
            return not file.process.alive
        if file.pipe is not None:
            return bool(file.pipe.data) or not file.pipe.writers
        assert file.node is not None
        return bool(file.node.data)

    # Time and chance

    def monotonic(self) -> float:
        return self.kernel.now_s

    perf_counter = monotonic

    def time(self) -> float:
        return self.kernel.wall_s()

    def sleep(self, seconds: float) -> None:
        self.kernel.call("sleep")
        self.kernel.wait(None, seconds)

    def token_hex(self, size: int | None = None) -> str:
        return f"{self.kernel.rng.getrandbits(8 * (size or 8)):0{2 * (size or 8)}x}"

    def token_bytes(self, size: int | None = None) -> bytes:
        return self.kernel.rng.randbytes(size or 32)

    def randbelow(self, limit: int) -> int:
        return self.kernel.rng.randrange(limit)


def _short(path: Any) -> str:
    return os.fspath(path).removeprefix(f"{ROOT}/home/runs/").removeprefix(f"{ROOT}/home/")
