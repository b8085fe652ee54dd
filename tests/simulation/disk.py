"""Virtual disk: files and folders in memory, with what a power loss, a full disk and a torn write do to real ones.

A file's content is durable after fsync of the file, a name after fsync of its folder. At a power loss every folder
keeps a random prefix of the changes since its last fsync, and every file its durable content, its current one, or
something torn in between.
"""

from __future__ import annotations

import errno
import os
import stat
from dataclasses import dataclass, field
from random import Random

PIPE_CAPACITY = 1 << 16
_NOWHERE = -1


@dataclass(eq=False)
class Node:
    """Inode of a file, a folder or a FIFO."""

    number: int
    kind: str  # file, folder, fifo
    data: bytearray = field(default_factory=bytearray)
    durable: bytes | None = None  # content at the last fsync; None: never synced
    reserved: int = 0
    entries: dict[str, Node] = field(default_factory=dict)
    durable_entries: dict[str, Node] = field(default_factory=dict)
    pending: list[dict[str, Node | None]] = field(default_factory=list)  # changes of names since the last fsync
    changed_ns: int = 0
    links: int = 0
    lock: object | None = None  # open file description that holds the record lock
    readers: int = 0  # of a FIFO
    flocks: dict[object, bool] = field(default_factory=dict)  # open file description → exclusive

    def size(self) -> int:
        return max(len(self.data), self.reserved)


class Disk:
    """Paths are absolute texts. Errors are those of the system calls."""

    def __init__(self, rng: Random) -> None:
        self._rng, self._numbers = rng, 1
        self.root = Node(1, "folder", links=1)
        self.used = 0
        self.capacity: int | None = None
        self.now_ns = 0

    # Looking

    def find(self, path: str) -> Node:
        node = self.root
        for name in _parts(path):
            if node.kind != "folder":
                raise _error(errno.ENOTDIR, path)
            if name not in node.entries:
                raise _error(errno.ENOENT, path)
            node = node.entries[name]
        return node

    def parent(self, path: str) -> tuple[Node, str]:
        *folders, name = _parts(path)
        node = self.find("/" + "/".join(folders))
        if node.kind != "folder":
            raise _error(errno.ENOTDIR, path)
        return node, name

    def status(self, node: Node) -> os.stat_result:
        modes = {"file": stat.S_IFREG | 0o644, "folder": stat.S_IFDIR | 0o700, "fifo": stat.S_IFIFO | 0o600}
        seconds = node.changed_ns // 10**9
        values = (modes[node.kind], node.number, 99, node.links, 0, 0, len(node.data), seconds, seconds, seconds)
        return os.stat_result(values, {"st_mtime_ns": node.changed_ns, "st_ctime_ns": node.changed_ns})

    def tree(self, path: str) -> list[str]:
        """All paths below, sorted."""
        node = self.find(path)
        found = []
        for name, child in sorted(node.entries.items()):
            found.append(f"{path}/{name}")
            if child.kind == "folder":
                found += self.tree(f"{path}/{name}")
        return found

    # Names

    def make(self, path: str, kind: str) -> Node:
        folder, name = self.parent(path)
        if name in folder.entries:
            raise _error(errno.EEXIST, path)
        if self._room() < 1:
            raise _error(errno.ENOSPC, path)
        self._numbers += 1
        node = Node(self._numbers, kind, changed_ns=self.now_ns)
        self._apply(folder, {name: node})
        return node

    def remove(self, path: str, *, folder: bool = False) -> None:
        parent, name = self.parent(path)
        if name not in parent.entries:
            raise _error(errno.ENOENT, path)
        node = parent.entries[name]
        if folder and node.kind != "folder":
            raise _error(errno.ENOTDIR, path)
        if not folder and node.kind == "folder":
            raise _error(errno.EISDIR, path)
        if folder and node.entries:
            raise _error(errno.ENOTEMPTY, path)
        self._apply(parent, {name: None})

    def rename(self, source: str, target: str) -> None:
        parent, name = self.parent(source)
        there, new = self.parent(target)
        if name not in parent.entries:
            raise _error(errno.ENOENT, source)
        node, old = parent.entries[name], there.entries.get(new)
        if old is node:
            return
        if old is not None and old.kind == "folder" and (node.kind != "folder" or old.entries):
            raise _error(errno.ENOTEMPTY if node.kind == "folder" else errno.EISDIR, target)
        if old is not None and old.kind != "folder" and node.kind == "folder":
            raise _error(errno.ENOTDIR, target)
        if parent is not there:
            raise AssertionError(f"the simulated disk renames within one folder only: {source} → {target}")
        self._apply(parent, {name: None, new: node})

    def link(self, source: str, target: str) -> None:
        folder, name = self.parent(target)
        if name in folder.entries:
            raise _error(errno.EEXIST, target)
        self._apply(folder, {name: self.find(source)})

    def _apply(self, folder: Node, change: dict[str, Node | None]) -> None:
        folder.pending.append(change)
        folder.changed_ns = self.now_ns
        for name, node in change.items():
            old = folder.entries.get(name)
            if old is not None:
                self._unlink(old)
                del folder.entries[name]
            if node is not None:
                folder.entries[name] = node
                node.links += 1
                if node.links == 1:
                    self.used += node.size()

    def _unlink(self, node: Node) -> None:
        node.links -= 1
        if not node.links:
            self.used -= node.size()

    # Content

    def write(self, node: Node, data: bytes, at: int) -> int:
        """Return how many bytes fit; a full disk takes a part first and fails then."""
        growth = max(0, at + len(data) - node.size())
        if growth > self._room():
            fits = len(data) - growth + self._room()
            if fits <= 0:
                raise _error(errno.ENOSPC)
            data = data[:fits]
        before = node.size()
        node.data[at : at + len(data)] = data
        node.changed_ns = self.now_ns
        self._resized(node, before)
        return len(data)

    def truncate(self, node: Node, size: int) -> None:
        before = node.size()
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))
        node.changed_ns = self.now_ns
        self._resized(node, before)

    def reserve(self, node: Node, size: int) -> None:
        if size - node.size() > self._room():
            raise _error(errno.ENOSPC)
        before, node.reserved = node.size(), max(node.reserved, size)
        self._resized(node, before)

    def _resized(self, node: Node, before: int) -> None:
        if node.links:
            self.used += node.size() - before

    def _room(self) -> int:
        return 1 << 40 if self.capacity is None else max(0, self.capacity - self.used)

    def sync(self, node: Node) -> None:
        if node.kind == "folder":
            node.durable_entries, node.pending = dict(node.entries), []
        else:
            node.durable = bytes(node.data)

    # Faults

    def lose_power(self) -> None:
        """Keep what is durable and a random part of the rest."""
        self._restore(self.root, set())
        self.used = sum(node.size() for node in self._nodes(self.root))

    def _restore(self, node: Node, done: set[int]) -> None:
        if node.number in done:
            return
        done.add(node.number)
        node.lock, node.readers = None, 0
        node.flocks.clear()
        if node.kind != "folder":
            self._tear(node)
            return
        entries = dict(node.durable_entries)
        for change in node.pending[: self._rng.randint(0, len(node.pending))]:
            for name, child in change.items():
                entries.pop(name, None)
                if child is not None:
                    entries[name] = child
        node.entries, node.durable_entries, node.pending = entries, dict(entries), []
        for child in entries.values():
            child.links = 1
            self._restore(child, done)

    def _tear(self, node: Node) -> None:
        current, durable = bytes(node.data), node.durable or b""
        if current != durable:
            whole = current if current.startswith(durable) else durable
            kept = self._rng.choice(
                [durable, current, whole[: self._rng.randint(min(len(durable), len(whole)), len(whole))]]
            )
            if node.durable is None and self._rng.random() < 0.3:
                kept = b""
            node.data = bytearray(kept)
        node.durable = bytes(node.data)

    def _nodes(self, node: Node) -> list[Node]:
        return [node] + [each for child in node.entries.values() for each in self._nodes(child)]


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part]


def _error(number: int, path: str = "") -> OSError:
    return OSError(number, os.strerror(number), path) if path else OSError(number, os.strerror(number))
