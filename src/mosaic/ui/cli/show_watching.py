"""Pictures on the terminal of what is played now and is no run."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

from rich.live import Live

from mosaic.telemetry.frames.requests import Wish
from mosaic.telemetry.pictures.live import Pictures
from mosaic.ui.cli.backend import PlacedShow
from mosaic.ui.cli.output import err, note, out
from mosaic.ui.cli.picture_pane import PicturePane
from mosaic.ui.cli.recording import check_file, save, take

_LOOK_EVERY_S = 0.05
_OVER = ("finished", "writer died")


def watch_show(show: PlacedShow, wish: Wish, *, once: bool, picture: Path | None) -> None:
    if picture is not None:
        check_file(picture)
    with closing(show.pictures(wish)) as pictures:
        if picture is not None:
            frame = take(pictures, show.id, "game")
            save(picture, frame, show.id)
            note(f"{picture}: episode {frame.episode:,}, step {frame.step:,} ({pictures.state})")
        elif once:
            frame = take(pictures, show.id, "game")
            out.print(PicturePane(pictures, frame).render(min(out.width, 100), out.height))
        else:
            _follow(show, pictures, wish)


def _follow(show: PlacedShow, pictures: Pictures, wish: Wish) -> None:
    """Until it is over; the last picture stays on the screen."""
    pane, pause = PicturePane(pictures), threading.Event()
    if not err.is_terminal:
        note(f"{show.id} is followed to its end; pictures need a terminal, or --picture FILE.png.")
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
                pause.wait(max(_LOOK_EVERY_S, 1 / wish.rate_hz))
    out.print(f"{show.id} is over.")
