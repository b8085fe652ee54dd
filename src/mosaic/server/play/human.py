"""Controller for human players in a match: their actions are ready before it is asked."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env
from mosaic.server.play.timing import DEFAULT_TURNS_HZ, REAL_TIME_FPS

HIGHEST_OWN_RATE_HZ = 60.0


class HumanController:
    """Controller of all human players. It never waits: the match asks only when all have chosen."""

    def __init__(self) -> None:
        self.answers: dict[AgentID, Action] = {}

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self.answers[agent] for agent in turn.observations}

    def close(self) -> None:
        pass


def read_action(space: Space[Any], data: Any) -> Action:
    """Convert an action from JSON."""
    match space:
        case spaces.Discrete() if isinstance(data, int):
            return data
        case spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            try:
                return np.asarray(data, space.dtype).reshape(space.shape)
            except (TypeError, ValueError, OverflowError) as error:
                raise InputError(f"{data!r} is not an action of {space}: {error}.") from error
        case _:
            raise InputError(f"{data!r} is not an action of {space}.")


def frames_per_second(env: Env) -> float | None:
    """Return how often the env itself wants to be drawn."""
    raw: Any = env
    while hasattr(raw, "env"):
        raw = raw.env
    fps = getattr(getattr(raw, "unwrapped", raw), "metadata", {}).get("render_fps")
    return float(fps) if fps else None


def plays_in_real_time(env: Env, pace: Literal["auto", "turns", "real_time"], agents: tuple[AgentID, ...]) -> bool:
    if pace != "auto":
        return pace == "real_time"
    if env.spec.facts.turn_based:
        return False
    steered = any(isinstance(env.action_spaces[agent], spaces.Box) for agent in agents)
    return steered or (frames_per_second(env) or 0.0) >= REAL_TIME_FPS


def rate_of(env: Env, real_time: bool) -> float:
    return min(frames_per_second(env) or 10.0, HIGHEST_OWN_RATE_HZ) if real_time else DEFAULT_TURNS_HZ
