"""Camera that films episodes: frame, caption and frame rate."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Turn
from mosaic.envs.env import Env
from mosaic.runners.video import Film, check_film
from mosaic.telemetry.pictures.captions import rows_of, with_strip
from mosaic.telemetry.pictures.labels import Label

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
    raw: Any = env
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
