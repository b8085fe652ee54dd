"""How a program's bytes become lines, whatever the bytes are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from mosaic.telemetry.events.lines import LONGEST_LINE


class Line(NamedTuple):
    raw: bytes  # with its line break, where it has one
    whole: bool  # False: a piece of a line that is too long

    @property
    def text(self) -> str:
        return self.raw.rstrip(b"\r\n").decode(errors="replace")


class LineSplitter:
    """Collects the chunks of one stream. Too long lines come in pieces, so that no program can fill our memory."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._rest = b""  # begun, not ended
        self._torn = False  # pieces of this line were handed out before

    def feed(self, chunk: bytes) -> Iterator[Line]:
        *ended, rest = chunk.split(b"\n")
        for part in ended:
            yield self._line(self._rest + part + b"\n")
            self._rest, self._torn = b"", False
        self._rest += rest
        if len(self._rest) > self._longest:
            yield Line(self._rest, False)
            self._rest, self._torn = b"", True

    def end(self) -> Iterator[Line]:
        """The last line needs no line break."""
        if self._rest:
            yield self._line(self._rest)
        self._rest, self._torn = b"", False

    def _line(self, raw: bytes) -> Line:
        return Line(raw, not self._torn and len(raw) <= self._longest + 1)
