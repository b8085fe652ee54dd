"""Objects that simulated system calls return or wait on: files, folder entries, selectors, conditions."""

from __future__ import annotations

import select
import selectors
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tests.simulation.disk import Node

if TYPE_CHECKING:
    from tests.simulation.syscalls import Calls


class VirtualFile:
    """What `open` returns for a simulated file: unbuffered, closed with its process or by its context."""

    def __init__(self, calls: Calls, fd: int, mode: str) -> None:
        self._calls, self._fd, self._text = calls, fd, "b" not in mode
        self.closed = False

    def fileno(self) -> int:
        return self._fd

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> Any:
        if size >= 0:
            return self._told(self._calls.read(self._fd, size))
        parts = []
        while part := self._calls.read(self._fd, 1 << 30):
            parts.append(part)
        return self._told(b"".join(parts))

    def readinto(self, buffer: Any) -> int:
        data = self._calls.read(self._fd, len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def readline(self) -> bytes:
        line = b""
        while not line.endswith(b"\n") and (part := self._calls.read(self._fd, 1)):
            line += part
        return line

    def write(self, data: Any) -> int:
        data = data.encode() if self._text else data
        if not self._text:
            return self._calls.write(self._fd, data)
        written = 0
        while written < len(data):
            written += self._calls.write(self._fd, data[written:])
        return written

    def seek(self, offset: int, whence: int = 0) -> int:
        file = self._calls._file(self._fd)
        assert file.node is not None
        file.position = offset + {0: 0, 1: file.position, 2: len(file.node.data)}[whence]
        return file.position

    def tell(self) -> int:
        return self._calls._file(self._fd).position

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._calls.close(self._fd)

    def _told(self, data: bytes) -> Any:
        return data.decode(errors="replace") if self._text else data

    def __enter__(self) -> VirtualFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProcFile(VirtualFile):
    def __init__(self, data: bytes, mode: str) -> None:
        self._data, self._text, self.closed = data, "b" not in mode, False

    def read(self, size: int = -1) -> Any:
        return self._told(self._data)

    def close(self) -> None:
        self.closed = True


class Entry:
    def __init__(self, folder: str, name: str, node: Node) -> None:
        self.name, self.path, self._node = name, f"{folder}/{name}", node

    def __fspath__(self) -> str:
        return self.path

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.kind == "folder"

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._node.kind == "file"

    def is_symlink(self) -> bool:
        return False

    def is_junction(self) -> bool:
        return False


class Entries:
    def __init__(self, entries: list[Entry]) -> None:
        self._entries = iter(entries)

    def __iter__(self) -> Iterator[Entry]:
        return self._entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def __enter__(self) -> Entries:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass


class Poll:
    """`select.poll` over simulated descriptors."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._fds = calls, list[int]()

    def register(self, fd: int, events: int = 0) -> None:
        self._fds.append(fd)

    def poll(self, timeout_ms: float | None = None) -> list[tuple[int, int]]:
        self._calls.kernel.call("poll")
        current = self._calls.kernel.current

        def any_ready() -> bool:
            assert current is not None
            before, self._calls.kernel.current = self._calls.kernel.current, current
            try:
                return any(map(self._calls.is_readable, self._fds))
            finally:
                self._calls.kernel.current = before

        self._calls.kernel.wait(any_ready, None if timeout_ms is None else timeout_ms / 1000)
        return [(fd, select.POLLIN) for fd in self._fds if self._calls.is_readable(fd)]


class Selector:
    """`selectors.DefaultSelector` over simulated descriptors."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._keys: dict[int, selectors.SelectorKey] = {}

    def register(self, fd: int, events: int, data: Any = None) -> None:
        self._keys[fd] = selectors.SelectorKey(fd, fd, events, data)

    def unregister(self, fd: int) -> None:
        del self._keys[fd]

    def get_map(self) -> dict[int, selectors.SelectorKey]:
        return self._keys

    def select(self, timeout_s: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        poll = Poll(self._calls)
        for fd in self._keys:
            poll.register(fd)
        ready = poll.poll(None if timeout_s is None else timeout_s * 1000)
        return [(self._keys[fd], selectors.EVENT_READ) for fd, _ in ready]

    def close(self) -> None:
        pass


class Condition:
    """`threading.Condition` between threads of one simulated process, which switch only at system calls."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __enter__(self) -> Condition:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def wait_for(self, true: Callable[[], Any], timeout: float | None = None) -> bool:
        self._calls.kernel.call("wait")
        self._calls.kernel.wait(lambda: bool(true()), timeout)
        return bool(true())

    def notify_all(self) -> None:
        pass
