"""Time in a match: when its next step is taken, its start in real time, and the clocks of a game in turns."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias

from gymnasium import spaces
from pydantic import Field

from mosaic.config.sections import Section
from mosaic.core.ids import AgentID, JsonObject
from mosaic.envs.env import Env, innermost

if TYPE_CHECKING:
    from mosaic.server.play.participants import Viewer

PaceKind: TypeAlias = Literal["auto", "turns", "real_time"]
REAL_TIME_FPS = 5  # envs that are drawn at least this often are meant to run in real time
DEFAULT_TURNS_HZ = 2.0  # for a turn-based game played by policies only
HIGHEST_OWN_RATE_HZ = 60.0


class Pace:
    """Pace of a match: waiting for humans in turn-based games, at a rate otherwise. Callers hold the match's lock."""

    def __init__(
        self,
        kind: PaceKind,
        rate_hz: float | None,
        clock: Callable[[], float],
        clock_config: ClockConfig | None = None,
    ) -> None:
        self._kind, self._asked_hz, self._clock = kind, rate_hz, clock
        self.real_time, self.rate_hz = False, rate_hz or DEFAULT_TURNS_HZ
        self.paused = False
        self._single_steps = 0  # asked for and still to be taken
        self._due_s = 0.0  # when the next step is due at the chosen rate
        self.start = Start(clock)
        self.clocks = None if clock_config is None else GameClocks(clock_config, clock)

    def fit(self, env: Env, agents: tuple[AgentID, ...]) -> None:
        """Choose what was left open by what the env is made for."""
        self.real_time = plays_in_real_time(env, self._kind, agents)
        self.rate_hz = self._asked_hz or rate_of(env, self.real_time)

    def begin(self) -> None:
        """Begin an episode: forget single steps that were asked of the last one."""
        self._single_steps = 0

    def begin_time(self) -> None:
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


COUNTDOWN_S = 3.0


class ClockConfig(Section):
    """Clock of every side of a game in turns."""

    initial_s: float = Field(gt=0, le=86_400, description="Seconds for all moves of a side.")
    increment_s: float = Field(0.0, ge=0, le=3600, description="Seconds added for every move.")


class Start:
    """Start of a real-time episode: at the first key or click; with several people when all are ready, counted down."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.waiting = False
        self._ready: list[Viewer] = []
        self._at_s: float | None = None  # end of the countdown

    def begin(self, waiting: bool) -> None:
        self.waiting, self._at_s = waiting, None
        self._ready.clear()

    def press(self, viewer: Viewer) -> None:
        if self.waiting and viewer not in self._ready:
            self._ready.append(viewer)

    def wait_s(self, people: Collection[Viewer]) -> float:
        """Return seconds until the episode starts; inf: not before a person is ready."""
        if not self.waiting:
            return 0.0
        if not people or any(viewer not in self._ready for viewer in people):
            self._at_s = None
            return math.inf
        if self._at_s is None:
            self._at_s = self._clock() + (COUNTDOWN_S if len(people) > 1 else 0.0)
        left_s = self._at_s - self._clock()
        self.waiting = left_s > 0
        return max(0.0, left_s)

    def view(self, viewer: Viewer | None, people: Collection[Viewer]) -> JsonObject | None:
        """Return what the ready screen shows; None once the episode has started."""
        left_s = self.wait_s(people)
        if not self.waiting:
            return None
        ready = sum(each in self._ready for each in people)
        starts_in_s = None if math.isinf(left_s) else round(left_s, 2)
        return {"mine": viewer in self._ready, "ready": ready, "people": len(people), "starts_in_s": starts_in_s}


class GameClocks:
    """Remaining time of every side. A side's clock runs while it is to move, from the second move of the game on."""

    def __init__(self, config: ClockConfig, clock: Callable[[], float]) -> None:
        self._config, self._clock = config, clock
        self._left_s: dict[AgentID, float] = {}
        self._carried_s: Mapping[AgentID, float] = {}
        self._running: tuple[AgentID, ...] = ()
        self._since_s = 0.0
        self._stopped = False

    def begin(self, agents: Iterable[AgentID]) -> None:
        """Begin an episode with the whole time, or with what was carried over to it."""
        self._left_s = {agent: self._carried_s.get(agent, self._config.initial_s) for agent in agents}
        self._running, self._carried_s = (), {}

    def carry_over(self, left_s: Mapping[AgentID, float]) -> None:
        """Let the next episode begin with these times: it continues an earlier one."""
        self._carried_s = dict(left_s)

    def left_s(self) -> dict[AgentID, float]:
        """Return the seconds that each side has left."""
        self._charge()
        return {agent: max(0.0, left_s) for agent, left_s in self._left_s.items()}

    def move(self, moved: Collection[AgentID], acting: Iterable[AgentID], first: bool) -> None:
        """Note a step: `moved` have acted in it, `acting` are to act now."""
        self._charge()
        for agent in moved:
            if agent in self._running and self._left_s[agent] > 0:
                self._left_s[agent] += self._config.increment_s
        self._running = () if first else tuple(agent for agent in acting if agent in self._left_s)

    def stop(self, on: bool) -> None:
        """Stop the clocks for a pause, or let them run again."""
        self._charge()
        self._stopped = on

    def flag(self) -> AgentID | None:
        """Return the side whose time is over."""
        self._charge()
        return next((agent for agent, left_s in self._left_s.items() if left_s <= 0), None)

    def until_flag_s(self) -> float:
        if self._stopped or not self._running:
            return math.inf
        return max(0.0, min(self._left_s[agent] for agent in self._running) - (self._clock() - self._since_s))

    def view(self) -> JsonObject:
        running: list[AgentID] = [] if self._stopped else list(self._running)
        return {"left_s": {**self.left_s()}, "running": [*running]}

    def _charge(self) -> None:
        now_s = self._clock()
        if not self._stopped:
            for agent in self._running:
                self._left_s[agent] -= now_s - self._since_s
        self._since_s = now_s
