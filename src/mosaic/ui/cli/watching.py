"""Live view of a training run, built from its events alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING, Any

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mosaic.config.sections import join_id
from mosaic.ui.cli.backend import BackendRun, BackendSession
from mosaic.ui.cli.output import LINE_EVERY_S, Throttle, chart, err, note, out

if TYPE_CHECKING:  # these import numba
    from mosaic.telemetry.frames.reader import Pictures
    from mosaic.telemetry.frames.requests import FrameRequest
    from mosaic.ui.cli.pictures import PicturePane


_MOST_POINTS = 4000
_SPEED_OVER_S = 5.0
_WAITING = "waiting for the first iteration …"


class _Speed:
    """Env steps per second over the last seconds, and at least over one iteration.

    Within an iteration many algorithms sample first and learn afterwards, when no env steps.
    """

    def __init__(self) -> None:
        self._all: list[tuple[float, int]] = []  # time and env steps
        self._ends: list[tuple[float, int]] = []  # of iterations
        self._iteration: object = None  # the last

    def add(self, now: float, steps: int, iteration: object) -> None:
        if self._all and now <= self._all[-1][0]:
            self.clear()  # the clock was set back, or a script reports its own times
        self._all = _with_point(self._all, now, steps)
        if iteration is None or iteration != self._iteration:
            self._ends = _with_point(self._ends, now, steps)
        self._iteration = iteration

    def clear(self) -> None:
        self._all, self._ends = [], []

    @property
    def value(self) -> float | None:
        points = self._ends if len(self._ends) > 1 else self._all
        if len(points) < 2:
            return None
        (first, start), (last, end) = points[0], points[-1]
        return (end - start) / (last - first) or None  # a long update takes no step


def _with_point(points: list[tuple[float, int]], now: float, steps: int) -> list[tuple[float, int]]:
    recent = [(t, s) for t, s in points if now - t < _SPEED_OVER_S][-200:] or points[-1:]
    return [*recent, (now, steps)]


class TrainingView:
    """View of a run, fed with events and drawn at any time."""

    def __init__(
        self,
        run_id: str,
        title: str,
        total_timesteps: int | None = None,
        *,
        curve: bool = False,
        clock: Callable[[], float] = time,
    ) -> None:
        self.run_id, self.title, self.total_timesteps = run_id, title, total_timesteps
        self._curve, self._clock = curve, clock
        self._last: dict[str, Any] = {}
        self._points: list[tuple[int, float]] = []
        self._speed = _Speed()
        self._alerts: list[str] = []
        self._equipment = self._stage = ""
        self._stage_s: float | None = None  # when it began
        self.note = ""

    def add(self, event: Mapping[str, Any]) -> None:
        match event.get("kind"):
            case "iteration" | "episode":
                self._last |= event
                self._stage = "" if event.get("env_steps") else self._stage
                self._add_point(event)
            case "resumed":
                start = int(event.get("from_env_steps") or 0)
                self._points = [point for point in self._points if point[0] <= start]
                self._speed.clear()
            case "stage" | "compiling" as kind:
                self._stage = str(event.get("message", ""))
                self._stage_s = self._clock() if kind == "stage" else None  # compiling counts its own seconds
                self._speed.clear()  # the speed counts training only
            case "equipped":
                self._equipment = str(event.get("message", ""))
            case "alert":
                self._alerts = [*self._alerts[-2:], str(event.get("message", ""))]

    def _add_point(self, event: Mapping[str, Any]) -> None:
        steps, reward = event.get("env_steps"), event.get("episode_reward_mean")
        if steps is None:
            return
        now = float(event.get("timestamp") or self._clock())  # when it happened, not when it is read
        self._speed.add(now, int(steps), event.get("training_iteration"))
        if reward is not None:
            self._points.append((int(steps), float(reward)))
            if len(self._points) > _MOST_POINTS:
                self._points = self._points[::2]

    @property
    def steps_per_s(self) -> float | None:
        return self._speed.value

    def line(self) -> str:
        """Return the same facts in one line of plain text, for a log or a pipe."""
        return f"{self.run_id}: {self._facts(int(self._last.get('env_steps') or 0))}"

    def render(self, width: int = 80) -> RenderableType:
        parts: list[RenderableType] = [Text.assemble((self.title, "bold"), "  ", (self.run_id, "dim"))]
        if self._equipment:
            parts.append(Text(self._equipment, style="dim"))
        steps = int(self._last.get("env_steps") or 0)
        if self.total_timesteps:
            bar = Table.grid()
            bar.add_row(ProgressBar(total=self.total_timesteps, completed=steps, width=min(width, 60)))
            parts.append(bar)
        parts.append(Text(self._facts(steps)))
        policies = self._last.get("policies")
        if isinstance(policies, dict) and len(policies) > 1:
            parts.append(_policy_table(policies))
        if self._curve:
            xs, ys = [x for x, _ in self._points], [y for _, y in self._points]
            parts.append(Text("\n".join(["episode_reward_mean over env_steps", *chart(xs, ys, width, 14)])))
        parts.extend(Text(f"alert: {alert}", style="yellow") for alert in self._alerts)
        if self.note:
            parts.append(Text(self.note, style="dim"))
        return Group(*parts)

    def _facts(self, steps: int) -> str:
        speed, reward = self.steps_per_s, self._last.get("episode_reward_mean")
        facts = [f"{steps:,} env steps" + (f" of {self.total_timesteps:,}" if self.total_timesteps else "")]
        if speed is not None:
            facts.append(f"{speed:,.0f}/s")
            if self.total_timesteps and speed > 0 and steps < self.total_timesteps:
                facts.append(f"{_duration((self.total_timesteps - steps) / speed)} left")
        if reward is not None:
            facts.append(f"reward {reward:.3f}")
        elif not self._last and not self._stage:
            facts.append(_WAITING)
        elif self._last.get("note"):
            facts.append(str(self._last["note"]))
        if self._stage:
            began_s = self._stage_s
            facts.append(self._stage if began_s is None else f"{self._stage} … {self._clock() - began_s:.0f} s")
        if self._last.get("curriculum_stage") is not None:
            facts.append(f"stage {self._last['curriculum_stage']}")
        episodes = self._last.get("episodes_total")
        if episodes is not None:
            facts.append(f"{episodes:,} episodes")
        return "   ".join(facts)


def _policy_table(policies: Mapping[str, object]) -> Table:
    table = Table(box=None, header_style="dim")
    table.add_column("policy", overflow="fold")
    table.add_column("reward", no_wrap=True, justify="right")
    for name, block in policies.items():
        reward = block.get("reward_mean") if isinstance(block, dict) else None
        table.add_row(str(name), "–" if reward is None else f"{reward:.3f}")
    return table


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


_WIDEST = 100
_BESIDE = 70  # from this many columns on, curve and picture are side by side
_VIEW_LINES = 20
_GAP = 2


def follow(
    run: BackendRun,
    view: TrainingView,
    *,
    shown: bool = True,
    pane: PicturePane | None = None,
    rate_hz: float = 4,
    after_event: Callable[[], None] = lambda: None,
) -> None:
    """Show the run until it has ended; the last picture stays on the screen."""
    if not shown or not err.is_terminal:
        _follow_in_lines(run, view, shown)
        return

    def screen() -> RenderableType:
        return together(view, pane, err.width, err.height)

    # The drawing thread also polls for pictures: events may be rare, and pictures must not wait for them.
    with Live(get_renderable=screen, console=err, refresh_per_second=rate_hz):
        for event in run.events():
            view.add(event)
            after_event()


def _follow_in_lines(run: BackendRun, view: TrainingView, shown: bool) -> None:
    """Print a plain line now and then where no terminal can be redrawn: a pipe, a file, a cluster job."""
    pace = Throttle(LINE_EVERY_S, monotonic)
    if shown:
        note(view.line())
    for event in run.events():
        view.add(event)
        kind = event.get("kind")
        if shown and kind in ("equipped", "alert", "curriculum", "exported"):
            note(str(event["message"]))
        elif shown and kind == "stage":
            note(f"{view.run_id}: {event['message']} …")
        elif shown and kind in ("iteration", "episode", "compiling") and pace.due():
            note(view.line())


def together(view: TrainingView, pane: PicturePane | None, columns: int, rows: int) -> RenderableType:
    """Return the curve with the newest picture beside it, or below it on a narrow terminal."""
    if pane is None:
        return view.render(min(columns, _WIDEST))
    pane.look()
    if not pane.has_picture:
        return Group(view.render(min(columns, _WIDEST)), pane.render(columns, 1))
    if columns < _BESIDE:
        return Group(view.render(columns), pane.render(columns, max(8, rows - _VIEW_LINES)))
    left = min(columns // 2, _WIDEST)
    right = columns - left - _GAP
    grid = Table.grid(padding=(0, _GAP, 0, 0))
    grid.add_column(width=left)
    grid.add_column(width=right)
    grid.add_row(view.render(left), pane.render(right, rows - 2))
    return grid


def view_of(run: BackendRun, *, curve: bool = False) -> TrainingView:
    config = run.show().config
    environment, training = config["environment"], config["training"]
    title = f"{join_id(environment['family'], environment['env_id'])}   {training['worker']} {training['algorithm']}"
    return TrainingView(run.id, title, training.get("total_timesteps"), curve=curve)


_LOOK_EVERY_S = 0.05
_OVER = ("finished", "writer died")


def watch_session(session: BackendSession, request: FrameRequest, *, once: bool, picture: Path | None) -> None:
    from mosaic.ui.cli.pictures import PicturePane
    from mosaic.ui.cli.recording import check_file, save, take

    if picture is not None:
        check_file(picture)
    with closing(session.pictures(request)) as pictures:
        if picture is not None:
            frame = take(pictures, session.id, "game")
            save(picture, frame, session.id)
            note(f"{picture}: episode {frame.episode:,}, step {frame.step:,} ({pictures.state})")
        elif once:
            frame = take(pictures, session.id, "game")
            out.print(PicturePane(pictures, frame).render(min(out.width, 100), out.height))
        else:
            _follow(session, pictures, request)


def _follow(session: BackendSession, pictures: Pictures, request: FrameRequest) -> None:
    """Show pictures until the session is over; the last one stays on the screen."""
    from mosaic.ui.cli.pictures import PicturePane

    pane, pause = PicturePane(pictures), threading.Event()
    if not err.is_terminal:
        note(f"{session.id} is followed to its end; pictures need a terminal, or --picture FILE.png.")
        while pictures.state not in _OVER:
            pause.wait(_LOOK_EVERY_S)
            pictures.newest()
    else:
        with Live(console=err, auto_refresh=False) as live:
            while True:
                over = pictures.state in _OVER
                pane.look()
                live.update(pane.render(err.width, err.height - 2), refresh=True)
                if over:
                    break
                pause.wait(max(_LOOK_EVERY_S, 1 / request.rate_hz))
    out.print(f"{session.id} is over.")
