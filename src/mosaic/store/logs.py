"""Logs of a run's worker: stdout and stderr, each in a file of bounded size.

A worker and its children write directly into the file, which outlives every reader. When it is full, the supervisor
moves its content into one earlier part, `worker.log.N`, and empties it; N is how many bytes were written before the
file's first one. Positions count from the very first byte, so readers can follow across rotations.
"""

from __future__ import annotations

import codecs
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal, NamedTuple

from mosaic.store.run_folder import RunFolder

Stream = Literal["stdout", "stderr"]
STREAMS: tuple[Stream, ...] = ("stdout", "stderr")
LARGEST_BYTES = 16 << 20  # of the current file; the earlier part is at most as large, except for a last burst


class FilePart(NamedTuple):
    data: bytes
    start: int  # position of its first byte
    end: int

    def text(self) -> tuple[str, int]:
        """Return the decoded text and the position after it; an incomplete character is left for the next part."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        text = decoder.decode(self.data)
        return text, self.end - len(decoder.getstate()[0])


class WorkerLog:
    def __init__(self, folder: RunFolder, stream: Stream = "stdout") -> None:
        self.path = folder.log if stream == "stdout" else folder.errors

    def read(self, after: int | None = None, size: int | None = None) -> FilePart:
        """Read what follows a position; without one, the last `size` bytes. Dropped content is left out."""
        with self._parts() as (earlier, current):
            if current is None:
                return FilePart(b"", 0, 0)
            base = _position(earlier)
            first = base - (earlier.stat().st_size if earlier is not None else 0)
            end = base + os.fstat(current.fileno()).st_size
            if after is None:
                after = first if size is None else end - size
            start = min(max(after, first), end)
            stop = end if size is None else min(end, start + size)
            data = b""
            if earlier is not None and start < base:
                data = _span(earlier, start - first, min(stop, base) - start)
            current.seek(max(0, start - base))
            data += current.read(max(0, stop - max(start, base)))
            return FilePart(data, start, start + len(data))

    def rotate(self, largest_bytes: int = LARGEST_BYTES) -> bool:
        """Move a file that is too large into its earlier part. Only the holder of the run's lock may call this.

        Writers do not notice: they append, and find the file empty. A line written in the microsecond between the last
        check of the size and the truncation is lost.
        """
        try:
            if self.path.stat().st_size <= largest_bytes:
                return False
        except FileNotFoundError:
            return False
        with self.path.open("rb+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False  # being read; the next call comes soon
            before = self._earlier()
            staged = self.path.with_name(f".{self.path.name}.part")
            copied = 0
            with staged.open("wb") as part:
                while True:
                    shutil.copyfileobj(file, part)
                    part.flush()
                    copied = part.tell()
                    if os.fstat(file.fileno()).st_size == copied:
                        break
                position = _position(before) + copied
                os.replace(staged, self.path.with_name(f"{self.path.name}.{position}"))
                os.ftruncate(file.fileno(), 0)
            if before is not None:
                before.unlink()
        return True

    @contextmanager
    def _parts(self) -> Iterator[tuple[Path | None, IO[bytes] | None]]:
        """Yield the earlier part and the current one, which do not change meanwhile."""
        try:
            file = self.path.open("rb")
        except FileNotFoundError:
            yield None, None
            return
        with file:
            fcntl.flock(file, fcntl.LOCK_SH)
            yield self._earlier(), file

    def _earlier(self) -> Path | None:
        """Return the newest earlier part: an older one is about to be removed."""
        found = [path for path in self.path.parent.glob(f"{self.path.name}.*") if path.suffix[1:].isdecimal()]
        return max(found, key=_position, default=None)


def _position(earlier: Path | None) -> int:
    return 0 if earlier is None else int(earlier.suffix[1:])


def _span(path: Path, start: int, size: int) -> bytes:
    with path.open("rb") as file:
        file.seek(start)
        return file.read(size)
