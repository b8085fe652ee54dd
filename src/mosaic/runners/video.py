"""Videos of episodes: a writer of mp4 and GIF files that holds only the newest frame, and a camera that fills them."""

from __future__ import annotations

import os
import secrets
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.core.files import check_folder
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.env import Env
from mosaic.telemetry.pictures.captions import Label, rows_of, with_strip
from mosaic.telemetry.pictures.resize import Picture, as_rgb, fitted

INSTALL = "pip install 'mosaic-rl[video]'"
_GIF_FASTEST = 50  # frames a second: browsers slow down files that claim more
_MP4 = ("-c:v", "libx264", "-preset", "veryfast", "-crf", "18", "-pix_fmt", "yuv420p", "-movflags", "+faststart")
_ONE_PALETTE_EACH = "split[a][b];[a]palettegen=stats_mode=single[p];[b][p]paletteuse=new=1:dither=none"
_GIF = ("-filter_complex", _ONE_PALETTE_EACH, "-loop", "0")  # a common palette would need all frames at once


class Film:
    """Video file that appears complete on close, and not at all after an earlier failure.

    The first frame sets the size; others are fitted into it.
    """

    def __init__(self, path: Path, fps: float) -> None:
        check_film(path)
        if not 0.1 <= fps <= 240:
            raise InputError(f"A video has 0.1 to 240 frames a second, not {fps:g}.")
        self.path, self.fps = path, fps
        self._ffmpeg: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the film
        self._unfinished = path
        self._width = self._height = 0
        self._last = b""

    def add(self, picture: Picture, times: int = 1) -> None:
        rgb = as_rgb(picture)
        if self._ffmpeg is None:
            self._begin(rgb)
        self._last = fitted(rgb, self._width, self._height).tobytes()
        self._send(times)

    def hold(self, seconds: float) -> None:
        """Repeat the last frame for this long."""
        if self._ffmpeg is not None:
            self._send(max(1, round(seconds * self.fps)))

    def close(self) -> None:
        """Finish the file and wait until it is written."""
        if self._ffmpeg is None:
            self._said.close()
            return
        assert self._ffmpeg.stdin is not None
        try:
            self._ffmpeg.stdin.close()
        except BrokenPipeError as error:
            raise self._failed() from error
        if self._ffmpeg.wait() != 0:
            raise self._failed()
        os.replace(self._unfinished, self.path)
        self._ffmpeg = None
        self._said.close()

    def abandon(self) -> None:
        """Stop ffmpeg and remove the unfinished file."""
        if self._ffmpeg is not None:
            self._ffmpeg.kill()
            self._ffmpeg.communicate()
            self._unfinished.unlink(missing_ok=True)
            self._ffmpeg = None
        self._said.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def _begin(self, first: Picture) -> None:
        program = ffmpeg_program()
        # H.264 halves the resolution of colours, so sides must be even
        self._height, self._width = (side + side % 2 for side in first.shape[:2])
        name = f".{self.path.stem}-{secrets.token_hex(4)}{self.path.suffix.lower()}"  # ffmpeg reads the format from it
        self._unfinished = self.path.with_name(name)
        size = f"{self._width}x{self._height}"
        source = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", f"{self.fps:g}", "-i", "-", "-an")
        kind = _MP4 if self.path.suffix.lower() == ".mp4" else (*_GIF, "-r", f"{min(self.fps, _GIF_FASTEST):g}")
        self._ffmpeg = subprocess.Popen(
            [program, "-y", "-nostdin", "-v", "error", *source, *kind, str(self._unfinished)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=self._said,
            start_new_session=True,  # Ctrl-C goes to this process only, which ends ffmpeg
        )

    def _send(self, times: int) -> None:
        assert self._ffmpeg is not None
        assert self._ffmpeg.stdin is not None
        try:
            for _ in range(times):
                self._ffmpeg.stdin.write(self._last)
        except BrokenPipeError as error:
            raise self._failed() from error

    def _failed(self) -> MosaicError:
        assert self._ffmpeg is not None
        assert self._ffmpeg.stdin is not None
        with suppress(BrokenPipeError):  # unsent data is lost with the process
            self._ffmpeg.stdin.close()
        self._ffmpeg.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip().splitlines()
        self._unfinished.unlink(missing_ok=True)
        code, self._ffmpeg = self._ffmpeg.returncode, None
        self._said.close()
        return MosaicError(f"ffmpeg could not write '{self.path}': {said[-1] if said else f'it ended with {code}'}.")


def check_film(path: Path) -> None:
    """Raise for a path or setup that cannot give a video, before anything is played."""
    if path.suffix.lower() not in (".mp4", ".gif"):
        raise InputError(
            f"'{path}' is not a video that Mosaic can write: use .mp4 or .gif. Type: {path.with_suffix('.mp4')}"
        )
    if path.is_dir():
        raise InputError(f"'{path}' is a folder; name a file in it, such as {path / 'film.mp4'}")
    check_folder(path)
    ffmpeg_program()


def ffmpeg_program() -> str:
    try:
        from imageio_ffmpeg import get_ffmpeg_exe
    except ImportError as error:
        raise MissingExtraError(f"Videos need imageio-ffmpeg, which is not installed. Type: {INSTALL}") from error
    try:
        return str(get_ffmpeg_exe())
    except RuntimeError as error:
        raise MissingExtraError(
            f"Videos need ffmpeg, and imageio-ffmpeg finds none. Type: {INSTALL} --force-reinstall"
        ) from error


LAST_PICTURE_S = 1.0  # without a pause the end could not be seen
_FPS, _FPS_OF_TURNS = 30.0, 2.0


class FilmCamera:
    """Camera that films the first `episodes` episodes, one after another, into one file."""

    def __init__(self, path: Path, *, episodes: int = 1, fps: float | None = None) -> None:
        check_film(path)
        if episodes < 1:
            raise InputError(f"A video needs at least 1 episode, not {episodes}.")
        self.path, self.episodes = path, episodes
        self._fps = fps
        self._film: Film | None = None
        self._rows: int | None = None
        self._returns: dict[AgentID, float] = {}
        self._policies: dict[AgentID, PolicyID] = {}
        self._open = ExitStack()

    def wants(self, episode: int) -> bool:
        """Return whether this episode, counted from 0, is filmed."""
        return episode < self.episodes

    def shoot(self, env: Env, step: int, turn: Turn, policies: Mapping[AgentID, PolicyID], episode: int = 0) -> None:
        """Film the env in its current state.

        Step 0, the Turn after reset, starts an episode; `cut` ends it.
        """
        picture = env.render()
        if picture is None:
            raise InputError(f"{env.spec.env_id} has no pictures, so it cannot be filmed.")
        if step == 0:
            self._returns, self._policies = dict.fromkeys(env.possible_agents or turn.rewards, 0.0), {}
        self._policies |= policies  # including those of agents that have ended
        for agent, reward in turn.rewards.items():
            self._returns[agent] = self._returns.get(agent, 0.0) + reward
        title = f"{env.spec.env_id} · step {step}" + (f" · episode {episode + 1}" if self.episodes > 1 else "")
        labels = [Label(_who(agent, self._policies), f"{total:.4g}") for agent, total in self._returns.items()]
        if self._film is None:
            self._film = self._open.enter_context(Film(self.path, self._fps or frame_rate(env)))
            self._rows = rows_of(len(labels), picture.shape[1])
        self._film.add(with_strip(picture, title, labels, self._rows))

    def cut(self) -> None:
        """End the episode: hold its last frame."""
        if self._film is not None:
            self._film.hold(LAST_PICTURE_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)


def frame_rate(env: Env) -> float:
    """Return the env's own `render_fps` in its metadata, else two frames a second for turn-based games, else 30."""
    raw: object = env
    while raw is not None:
        metadata = getattr(raw, "metadata", None)
        named = metadata.get("render_fps") if isinstance(metadata, Mapping) else None
        if isinstance(named, int | float) and named > 0:
            return float(named)
        raw = getattr(raw, "env", None)
    return _FPS_OF_TURNS if env.spec.facts.turn_based else _FPS


def _who(agent: AgentID, policies: Mapping[AgentID, PolicyID]) -> str:
    policy = policies.get(agent)
    return f"{agent} ({policy})" if policy else agent
