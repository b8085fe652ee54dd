"""Pace of a match: when its next step is taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, TypeAlias

from gymnasium import spaces

from mosaic.core.ids import AgentID
from mosaic.envs.env import Env
from mosaic.server.play.keys import innermost

PaceKind: TypeAlias = Literal["auto", "turns", "real_time"]
REAL_TIME_FPS = 5  # envs that are drawn at least this often are meant to run in real time
DEFAULT_TURNS_HZ = 2.0  # for a turn-based game played by policies only
HIGHEST_OWN_RATE_HZ = 60.0


class Pace:
    """Pace of a match: waiting for humans in turn-based games, at a rate otherwise. Callers hold the match's lock."""

    def __init__(self, kind: PaceKind, rate_hz: float | None, clock: Callable[[], float]) -> None:
        self._kind, self._asked_hz, self._clock = kind, rate_hz, clock
        self.real_time, self.rate_hz = False, rate_hz or DEFAULT_TURNS_HZ
        self.paused = False
        self._single_steps = 0  # asked for and still to be taken
        self._due_s = 0.0  # when the next step is due at the chosen rate

    def fit(self, env: Env, agents: tuple[AgentID, ...]) -> None:
        """Choose what was left open by what the env is made for."""
        self.real_time = plays_in_real_time(env, self._kind, agents)
        self.rate_hz = self._asked_hz or rate_of(env, self.real_time)

    def begin(self) -> None:
        """Begin an episode: forget single steps that were asked of the last one."""
        self._single_steps = 0

    def start(self) -> None:
        """Count time from now, when the episode's first position is ready."""
        self._due_s = self._clock()

    def advance(self) -> None:
        """Set the time of the next step; after a delay, at most one step is made up for."""
        self._due_s = max(self._due_s + 1 / self.rate_hz, self._clock() - 1 / self.rate_hz)

    def set_rate(self, hz: float) -> None:
        self.rate_hz, self._due_s = hz, self._clock()

    def pause(self, on: bool) -> None:
        self.paused, self._single_steps = on, 0

    def step_once(self) -> None:
        """Take one step while paused; a running game is paused by it."""
        self.paused = True
        self._single_steps += 1

    def take_step(self) -> None:
        self._single_steps = max(0, self._single_steps - 1)

    def wait_s(self, *, over: bool, watched: bool, people_play: bool, people_wait: bool) -> float:
        """Return seconds until the next step; 0: now, inf: not before something changes.

        `over`: nothing can follow but a restart. Unwatched matches are paused. `people_play`: a human has an agent;
        `people_wait`: one who must choose now has not chosen yet.
        """
        if over or not watched or (self.paused and not self._single_steps):
            return math.inf
        if people_wait and not self.real_time:
            return math.inf
        if self._single_steps or (people_play and not self.real_time):
            return 0.0
        return max(0.0, self._due_s - self._clock())


def frames_per_second(env: Env) -> float | None:
    """Return how often the env itself wants to be drawn."""
    fps = getattr(innermost(env), "metadata", {}).get("render_fps")
    return float(fps) if fps else None


def plays_in_real_time(env: Env, pace: PaceKind, agents: tuple[AgentID, ...]) -> bool:
    if pace != "auto":
        return pace == "real_time"
    if env.spec.facts.turn_based:
        return False
    steered = any(isinstance(env.action_spaces[agent], spaces.Box) for agent in agents)
    return steered or (frames_per_second(env) or 0.0) >= REAL_TIME_FPS


def rate_of(env: Env, real_time: bool) -> float:
    return min(frames_per_second(env) or 10.0, HIGHEST_OWN_RATE_HZ) if real_time else DEFAULT_TURNS_HZ
