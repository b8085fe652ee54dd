"""The camera that `--video` asks for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mosaic.runners.film import FilmCamera


def camera_for(video: Path | None, fps: float | None, episodes: int = 1) -> FilmCamera | None:
    if video is None:
        return None
    from mosaic.runners.film import FilmCamera

    return FilmCamera(video, episodes=episodes, fps=fps)
