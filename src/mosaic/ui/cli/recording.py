"""Recording of runs and games: a single picture as a PNG file, videos, and live viewing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic, time
from typing import TYPE_CHECKING

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.files import check_folder, replace_file
from mosaic.telemetry.frames.reader import Frame, Pictures
from mosaic.telemetry.pictures.captions import from_line, with_strip
from mosaic.telemetry.pictures.resize import Picture

if TYPE_CHECKING:
    from mosaic.core.turn import Turn
    from mosaic.runners.live_screen import LiveScreen
    from mosaic.runners.local import LocalEnvRunner
    from mosaic.runners.video import FilmCamera


PATIENCE_S = 10.0  # a run may be in the middle of an update
_LOOK_EVERY_S = 0.02


def check_file(path: Path) -> None:
    """Raise InputError for a bad file name before any waiting."""
    if path.suffix.lower() != ".png":
        raise InputError(f"'{path}' is not a PNG file. Type: --picture {path.with_suffix('.png')}")


def take(
    pictures: Pictures,
    name: str,
    what: str = "run",
    patience_s: float = PATIENCE_S,
    ended: Callable[[], bool] = lambda: False,
    hint: str = "else its env draws none, or its worker does not",
) -> Frame:
    """Return the first picture drawn from now on; where none comes, the last one there is.

    Wait as long as `patience_s`, and not after `ended`. `hint` says why there may be none.
    """
    asked, deadline_s = time(), monotonic() + patience_s
    last: Frame | None = None
    pause, over = threading.Event(), False
    while True:
        frame = pictures.newest()
        # The first may be old, drawn for another viewer; a second one is new, whatever a server's clock says.
        if frame is not None and (last is not None or frame.wall_time >= asked):
            return frame
        last = frame or last
        if last is not None and pictures.state in ("finished", "writer died"):
            return last
        over = ended()
        if over or monotonic() >= deadline_s or (last is None and pictures.state == "finished"):
            break
        pause.wait(_LOOK_EVERY_S)
    if last is None:
        if over:
            raise MosaicError(f"The {what} {name} has ended, and no picture was drawn before that.")
        raise MosaicError(
            f"The {what} {name} showed no picture within {patience_s:.0f} s (its pictures: {pictures.state}). "
            f"Try again if it is starting or in a long update; {hint}."
        )
    return last


def save(path: Path, frame: Frame, name: str) -> None:
    title = f"{name} · env {frame.env} · episode {frame.episode:,} · step {frame.step:,}"
    save_png(path, with_strip(frame.pixels, title, from_line(frame.agent, frame.ret)))


def save_png(path: Path, picture: Picture) -> None:
    """Save a picture atomically."""
    from PIL import Image

    if path.suffix.lower() != ".png":
        raise InputError(f"'{path}' is not a PNG file. Type: {path.with_suffix('.png')}")
    check_folder(path)
    replace_file(path, lambda temporary: Image.fromarray(picture).save(temporary, "PNG"))


def camera_for(video: Path | None, fps: float | None, episodes: int = 1) -> FilmCamera | None:
    if video is None:
        return None
    from mosaic.runners.video import FilmCamera

    return FilmCamera(video, episodes=episodes, fps=fps)


@contextmanager
def demo_recorder(demo: str | None, runner: LocalEnvRunner) -> Iterator[Callable[[Turn], None]]:
    """Yield a function that receives every Turn; the episode is added afterwards, even if Ctrl-C ends it early."""
    if demo is None:
        yield lambda turn: None
        return
    from mosaic.runners.trajectories import TrajectoryRecorder
    from mosaic.store.demos.recording import record_demo
    from mosaic.ui.cli.output import note

    recorder = TrajectoryRecorder(runner.env)
    with record_demo(demo)(runner.env.spec) as sink:
        try:
            yield lambda turn: recorder.note(turn, runner.record)
        except KeyboardInterrupt:
            runner.record.cut = True
            sink.add(0, runner.record, recorder.trajectories())
            raise
        sink.add(0, runner.record, recorder.trajectories())
    note(f"Added to the demonstration {demo}: mosaic demos show {demo}")


@contextmanager
def watchable(kind: str, env: str, policies: Mapping[str, str]) -> Iterator[LiveScreen | None]:
    """Let others watch; yield None, after printing why, where that fails, since the game can be played regardless."""
    from mosaic.store.errors import StorageError
    from mosaic.store.live_sessions import live_screen
    from mosaic.ui.cli.output import note

    with ExitStack() as stack:
        screen: LiveScreen | None = None
        try:
            screen = stack.enter_context(live_screen(kind, env, policies))
        except StorageError as error:
            note(str(error))
        yield screen


def how_to_watch(screen: LiveScreen | None) -> str:
    return "" if screen is None else f"mosaic watch {screen.folder.name}"


def by_pattern(rules: Sequence[str]) -> dict[str, str]:
    """Return `--agent` rules as typed; they are validated elsewhere."""
    return {pattern: policy for pattern, _, policy in (rule.partition("=") for rule in rules)}
