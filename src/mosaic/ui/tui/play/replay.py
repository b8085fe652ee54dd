"""Replay on the screen: picture, moves and returns of a recorded episode at any step, and reports of its policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Resize
from textual.timer import Timer
from textual.widgets import Static

from mosaic.ui.tui.reader import Reader, Reading

if TYPE_CHECKING:
    from mosaic.server.client.replays import ReplayLink
    from mosaic.server.play.replay_views import ReplayRow, ReportRow
    from mosaic.telemetry.pictures.resize import Picture

_EVERY_S = 0.25
_SPEEDS = (1, 2, 5, 10, 30)  # steps per second
_FAINT, _TITLE = "#7d8794", "bold #2dbfab"
_PAGE = 10  # steps


@dataclass(frozen=True, slots=True)
class _Shot:
    """Part of a replay that was read for one step."""

    step: int
    row: ReplayRow
    reports: tuple[ReportRow, ...]
    picture: Picture | None
    note: str  # why there is no picture


class ReplayPane(Vertical):
    can_focus = True
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "go(-1)", show=False),
        Binding("right", "go(1)", show=False),
        Binding("pageup", f"go({-_PAGE})", show=False),
        Binding("pagedown", f"go({_PAGE})", show=False),
        Binding("home", "first", show=False),
        Binding("end", "last", show=False),
        Binding("up", "decision(-1)", show=False),
        Binding("down", "decision(1)", show=False),
    ]

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._link: ReplayLink | None = None
        self._shot: _Shot | None = None
        self._step, self._speed, self._playing = 0, 1, False  # the speed is a place in _SPEEDS
        self._timer: Timer | None = None
        self._reader: Reader[_Shot | None] = Reader(
            self, self._read, self._show, self._tell, every_s=_EVERY_S, key=_key_of
        )

    def compose(self) -> ComposeResult:
        yield Static("", id="replay-head")
        with Horizontal():
            yield Static("", id="replay-picture")
            yield Static("", id="replay-side")
        yield Static("", id="replay-said")
        yield Static(
            "[b]p[/b] play  [b]← →[/b] step  [b]< >[/b] speed  [b]t[/b] play on  "
            "[b]↑ ↓[/b] decisions  [b]⏎[/b] transcript  [b]esc[/b] back",
            classes="hint",
        )

    def attach(self, link: ReplayLink, title: str) -> None:
        """Show this replay until `leave` is called."""
        self._link, self._shot, self._step, self._playing = link, None, 0, False
        for name in ("#replay-picture", "#replay-side", "#replay-said"):
            self.query_one(name, Static).update("")
        self.query_one("#replay-head", Static).update(f"[dim]Opening {escape(title)} …[/]")
        self._reader.start()
        self._reader.again()

    @property
    def link(self) -> ReplayLink | None:
        return self._link

    @property
    def position(self) -> tuple[ReplayRow, int] | None:
        """Return the replay and the step that is shown; None before anything was read of it."""
        return None if self._shot is None or self._link is None else (self._shot.row, self._step)

    def leave(self) -> ReplayLink | None:
        """Show no more of the replay; return its connection, which may take a moment to close."""
        link, self._link = self._link, None
        self._playing = False
        self._reader.rest()
        return link

    def on_unmount(self) -> None:
        link = self.leave()
        self._reader.stop()
        if link is not None:
            link.close()

    def on_reading(self, event: Reading) -> None:
        event.stop()
        event.reader.deliver()

    # What is read and shown

    def _read(self) -> _Shot | None:
        from mosaic.core.errors import InputError
        from mosaic.telemetry.pictures.message import decoded

        link, last, step = self._link, self._shot, self._step
        if link is None:
            return None
        row = last.row if last is not None and last.row.done else link.show()
        reports = last.reports if last is not None else tuple(link.reports())
        ready = min(step, row.drawn)
        if last is not None and last.picture is not None and last.step // row.every == ready // row.every:
            return _Shot(ready, row, reports, last.picture, "")
        try:
            return _Shot(ready, row, reports, decoded(link.picture(ready)), "")
        except InputError as error:
            return _Shot(ready, row, reports, None, str(error))

    def _show(self, shot: _Shot | None) -> None:
        if shot is not None and self._link is not None:
            self._shot = shot
            self._draw()

    def _tell(self, text: str) -> None:
        if self._link is not None:
            self.query_one("#replay-head", Static).update(f"[#ef6f6c]{escape(text)}[/]")

    def on_resize(self, event: Resize) -> None:
        self._draw()

    def _draw(self) -> None:
        shot = self._shot
        if shot is None:
            return
        playing = f"{_SPEEDS[self._speed]} steps/s" + ("" if self._playing else ", paused")
        self.query_one("#replay-head", Static).update(head_line(shot.row, self._step, playing))
        place = self.query_one("#replay-picture", Static)
        place.update(_picture(shot, max(1, place.size.width), max(1, place.size.height)))
        side = self.query_one("#replay-side", Static)
        side.update(side_text(shot.row, self._step, max(1, side.size.height)))
        self.query_one("#replay-said", Static).update(_said_line(self._said()))

    def _said(self) -> list[ReportRow]:
        return [] if self._shot is None else [each for each in self._shot.reports if each.step == self._step]

    # Keys

    def _go_to(self, step: int) -> None:
        if self._shot is not None:
            self._step = min(max(0, step), self._shot.row.env_steps)
            self._draw()
            self._reader.poke()

    def action_go(self, steps: int) -> None:
        self._playing = False
        self._go_to(self._step + steps)

    def action_first(self) -> None:
        self._go_to(0)

    def action_last(self) -> None:
        self._go_to(self._shot.row.env_steps if self._shot is not None else 0)

    def action_decision(self, way: int) -> None:
        """Go to the nearest decision before or after this step that a policy reported on."""
        steps = [each.step for each in self._shot.reports] if self._shot is not None else []
        found = [step for step in steps if (step > self._step if way > 0 else step < self._step)]
        if found:
            self._playing = False
            self._go_to(min(found) if way > 0 else max(found))

    def toggle(self) -> None:
        """Play from here, or from the start where it was at the end; or pause."""
        if self._shot is None:
            return
        self._playing = not self._playing
        if self._playing and self._step == self._shot.row.env_steps:
            self._step = 0
        self._pace()
        self._draw()

    def change_speed(self, way: int) -> None:
        self._speed = min(max(0, self._speed + way), len(_SPEEDS) - 1)
        self._pace()
        self._draw()

    def _pace(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_interval(1 / _SPEEDS[self._speed], self._tick) if self._playing else None

    def _tick(self) -> None:
        shot = self._shot
        if shot is None or not self._playing or not self.display:
            return
        if self._step >= shot.row.env_steps:
            self._playing = False
            self._draw()
        elif shot.row.done or self._step < shot.row.drawn:  # else the replay has not come so far
            self._go_to(self._step + 1)

    def transcript(self) -> RenderableType | None:
        """Return what policies reported on the decision at this step; None where they did not."""
        said = self._said()
        return Group(*(part for each in said for part in _report(each))) if said else None


def _key_of(shot: _Shot | None) -> object:
    return None if shot is None else (shot.step, shot.row.drawn, shot.row.done, shot.note, shot.row.replay_id)


def head_line(row: ReplayRow, step: int, pace: str) -> str:
    """Return env, seed, step, pace, and whether the replay equals the record."""
    return " · ".join(
        [f"[b]{escape(row.env)}[/b]", f"seed {row.seed}", f"step {step:,} of {row.env_steps:,}", pace, _verdict(row)]
    )


def _verdict(row: ReplayRow) -> str:
    if row.error:
        return f"[#ef6f6c]{escape(row.error)}[/]"
    if row.same is None:
        return f"replayed up to step {row.drawn:,}"
    return "same as recorded" if row.same else f"[#ef6f6c]differs at {escape(row.difference)}[/]"


def side_text(row: ReplayRow, step: int, height: int) -> Text:
    """Return policies with their returns until the step and in the end, then the moves around the step."""
    lines = []
    for agent, policy in row.policies.items():
        until = sum(rewards.get(agent, 0.0) for rewards in row.rewards[:step])
        lines.append(Text(f"{agent}  {until:g} of {row.returns.get(agent, 0.0):g}", no_wrap=True))
        lines.append(Text(f"  {policy}", _FAINT, no_wrap=True, overflow="ellipsis"))
    lines = lines[: max(2, height // 2)]
    room = height - len(lines) - 2
    first = max(0, min(step - 1 - room // 2, len(row.moves) - room))
    moves = [
        Text(f"{number:>3} {move}", "reverse" if number == step else "", no_wrap=True, overflow="ellipsis")
        for number, move in enumerate(row.moves[first : first + max(0, room)], first + 1)
    ]
    return Text("\n").join([*lines, Text(), Text("Steps", _TITLE), *moves])


def _picture(shot: _Shot, width: int, height: int) -> RenderableType:
    if shot.picture is None:
        return Text(shot.note, _FAINT)
    from mosaic.ui.cli.pictures import HalfBlocks

    return HalfBlocks(shot.picture, width, height)


def _said_line(said: list[ReportRow]) -> str:
    """Return one line about the reports on this step's decision."""
    parts = [f"[b]{escape(each.agent)}[/b] {escape(_numbers(each))}" for each in said]
    return "  ".join(parts) + ("  [dim]⏎ shows what was said[/]" if any(each.transcript for each in said) else "")


def _numbers(report: ReportRow) -> str:
    return ", ".join(f"{name} {_figure(value)}" for name, value in report.numbers.items())


def _figure(value: float | Sequence[float]) -> str:
    if isinstance(value, Sequence):
        return " ".join(map(_figure, value))
    return ("yes" if value else "no") if isinstance(value, bool) else f"{value:.4g}"


def _report(report: ReportRow) -> list[RenderableType]:
    lines: list[RenderableType] = [Text.assemble((report.agent, _TITLE), f"  {_numbers(report)}")]
    for said in report.transcript:
        refused = "not a legal action" in said.note
        lines.append(Text.assemble((f"\n{said.role}", "bold"), (f"  {said.note}", "#ef6f6c" if refused else _FAINT)))
        lines.append(Text(said.text or "(empty)"))
    return [*lines, Text()]
