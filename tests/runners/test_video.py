"""Videos: every picture, right colours, whole files or none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.envs.catalog import make_env
from mosaic.runners.video import Film, FilmCamera, ffmpeg_program, frame_rate

COLOURS = [(220, 40, 30), (30, 200, 60), (20, 60, 230)]


def seen(path: Path, width: int, height: int) -> NDArray[np.uint8]:
    """Every picture of the video, through ffmpeg."""
    asked = [ffmpeg_program(), "-v", "error", "-i", str(path), "-fps_mode", "passthrough"]
    raw = subprocess.run([*asked, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"], check=True, capture_output=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, height, width, 3)


@pytest.mark.parametrize("name", ["a.mp4", "a.gif", "A.MP4"])
def test_a_video_holds_the_pictures_it_was_given(tmp_path: Path, name: str) -> None:
    with Film(tmp_path / name, fps=10) as film:
        for colour in COLOURS:
            film.add(np.full((33, 47, 3), colour, np.uint8))  # odd sides: H.264 has none
        assert not (tmp_path / name).exists()
    assert [path.name for path in tmp_path.iterdir()] == [name]
    pictures = seen(tmp_path / name, 48, 34)
    assert len(pictures) == 3
    for picture, colour in zip(pictures, COLOURS, strict=True):
        assert np.abs(picture[16, 20].astype(int) - colour).max() <= 6


def test_pictures_of_another_size_and_grey_ones_are_fitted(tmp_path: Path) -> None:
    with Film(tmp_path / "a.mp4", fps=5) as film:
        film.add(np.full((40, 60, 3), 255, np.uint8))
        film.add(np.full((80, 80), 255, np.uint8))
        film.hold(1.0)
    pictures = seen(tmp_path / "a.mp4", 60, 40)
    assert len(pictures) == 2 + 5
    assert pictures[1][20, 30].min() > 240
    assert pictures[1][20, 3].max() < 20  # the side that a square leaves free


def test_a_film_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        with Film(tmp_path / "a.mp4", fps=5) as film:
            film.add(np.zeros((40, 60, 3), np.uint8))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    with Film(tmp_path / "b.mp4", fps=5):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_ffmpeg_says_is_passed_on(tmp_path: Path) -> None:
    folder = tmp_path / "there"
    folder.mkdir()
    film = Film(folder / "a.mp4", fps=5)
    folder.rmdir()
    with pytest.raises(MosaicError, match=r"ffmpeg could not write '.*a\.mp4': .*No such file"):
        film.add(np.zeros((400, 600, 3), np.uint8), times=100)


def test_wrong_names_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"'a\.avi' is not a video that Mosaic can write: .*Type: a\.mp4"):
        Film(Path("a.avi"), 5)
    with pytest.raises(InputError, match=r"There is no folder 'nowhere' for 'a\.gif'\. Type: mkdir -p nowhere"):
        Film(Path("nowhere/a.gif"), 5)
    (tmp_path / "x.mp4").mkdir()
    with pytest.raises(InputError, match="is a folder; name a file in it"):
        FilmCamera(tmp_path / "x.mp4")
    with pytest.raises(InputError, match=r"0\.1 to 240 frames a second, not 0"):
        Film(tmp_path / "a.mp4", 0)


def test_without_imageio_ffmpeg_the_line_to_type_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    with pytest.raises(MissingExtraError, match=r"Type: pip install 'mosaic-rl\[video\]'"):
        FilmCamera(tmp_path / "a.mp4")


def test_without_the_program_itself_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import imageio_ffmpeg

    def missing() -> str:
        raise RuntimeError("No ffmpeg exe could be found.")

    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", missing)
    with pytest.raises(MissingExtraError, match=r"finds none\. Type: pip install 'mosaic-rl\[video\]' --force-reinst"):
        Film(tmp_path / "a.mp4", 5)


class Blind:
    """An env without pictures, as hanabi is."""

    def __init__(self, env: object) -> None:
        self.env = env

    def __getattr__(self, name: str) -> object:
        return getattr(self.env, name)

    def render(self) -> None:
        return None


def test_an_env_without_pictures_cannot_be_filmed(tmp_path: Path) -> None:
    env = make_env("mosaic/gridworld")
    try:
        turn = env.reset(0)
        with (
            pytest.raises(InputError, match="mosaic/gridworld has no pictures, so it cannot be filmed"),
            FilmCamera(tmp_path / "a.mp4") as camera,
        ):
            camera.shoot(Blind(env), 0, turn, {})  # type: ignore[arg-type]
    finally:
        env.close()
    assert list(tmp_path.iterdir()) == []


def test_a_video_runs_as_fast_as_its_env_is_meant_to() -> None:
    rates = {}
    for name in ("gym/CartPole-v1", "mosaic/gridworld", "classic/tictactoe_v3"):
        env = make_env(name)
        rates[name] = frame_rate(env)
        env.close()
    assert rates["gym/CartPole-v1"] == 50
    assert all(0 < rate <= 50 for rate in rates.values())
