"""Status line and messages: each has a kind, a colour and a lifetime, and stays in the session's history."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import localtime, strftime
from typing import Literal, NamedTuple, TypeAlias

from rich.markup import escape
from textual.widgets import Static

Kind: TypeAlias = Literal["info", "done", "warning", "error"]
LOOKS: dict[Kind, tuple[str, str]] = {
    "info": ("·", "#79aef5"),
    "done": ("✓", "#2dbfab"),
    "warning": ("!", "#f0a35e"),
    "error": ("✗", "#ef6f6c"),
}
LIFETIMES_S: dict[Kind, float] = {"info": 6.0, "done": 6.0, "warning": 12.0, "error": 30.0}
_MOST_KEPT = 200


class Notice(NamedTuple):
    at: float  # seconds since 1970
    kind: Kind
    text: str

    @property
    def line(self) -> str:
        sign, colour = LOOKS[self.kind]
        return f"[{colour}]{sign} {escape(self.text)}[/]"

    @property
    def dated(self) -> str:
        return f"[dim]{strftime('%H:%M:%S', localtime(self.at))}[/] {self.line}"


class StatusLine(Static):
    """One line: the newest message while it lives, and where the data comes from."""

    def __init__(self, place: str, clock: Callable[[], float]) -> None:
        super().__init__("", id="status")
        self._place, self._clock = place, clock
        self.history: deque[Notice] = deque(maxlen=_MOST_KEPT)
        self._shown: Notice | None = None
        self._live = 0
        self.lost = ""  # why the connection is lost

    def on_mount(self) -> None:
        self._draw()

    def say(self, text: str, kind: Kind = "info") -> None:
        """Show a message; it disappears after its kind's lifetime, and a newer one replaces it."""
        notice = Notice(self._clock(), kind, " ".join(text.split()))
        self.history.append(notice)
        self._shown = notice
        self._draw()
        self.set_timer(LIFETIMES_S[kind], lambda: self._forget(notice))

    def show_running(self, number: int) -> None:
        if number != self._live:
            self._live = number
            self._draw()

    def show_lost(self, reason: str) -> None:
        """Show that the source cannot be reached, until it can; "" means that it can."""
        if reason and not self.lost:
            self.history.append(Notice(self._clock(), "error", reason))
        if reason != self.lost:
            self.lost = reason
            self._draw()

    def _forget(self, notice: Notice) -> None:
        if self._shown is notice:
            self._shown = None
            self._draw()

    def _draw(self) -> None:
        if self._shown is not None:
            left = self._shown.line
        elif self.lost:
            left = Notice(0, "error", f"{' '.join(self.lost.split())} · trying again …").line
        else:
            left = ""
        self.update(left or f"[dim]{self._live} running · {escape(self._place)}[/]")
