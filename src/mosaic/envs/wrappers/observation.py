"""Base of wrappers that change observations and pass the rest of a Turn through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeGuard, TypeVar

import numpy as np
from gymnasium.spaces import Box, Space

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import Env
from mosaic.envs.transform import Transform

T = TypeVar("T")


class View(NamedTuple):
    """A transformation of the observations of one space."""

    space: Space[Any]  # of what `see` returns
    see: Callable[[Observation], Observation]  # returns a new object; its argument is never written to


class Viewed(Transform):
    """Wrapper that applies to every agent the view of its space; a view may refuse a space with an InputError."""

    def __init__(self, env: Env, view: Callable[[Space[Any]], View]) -> None:
        super().__init__(env)
        self._views = each_agent(env, view)
        self.observation_spaces = Lookup(lambda agent: self._views[agent].space, env.possible_agents)

    def reset(self, seed: int | None = None) -> Turn:
        return seen(self.env.reset(seed), self._see)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        return seen(self.env.step(actions), self._see)

    def _see(self, agent: AgentID, observation: Observation) -> Observation:
        return self._views[agent].see(observation)


def seen(turn: Turn, see: Callable[[AgentID, Observation], Observation]) -> Turn:
    """Return the Turn with every observation, final ones included, transformed by `see`."""
    now, masks, rewards, terminated, truncated, finals, infos = turn  # `_replace` would take twice as long
    now = {agent: see(agent, observation) for agent, observation in now.items()}
    finals = {agent: see(agent, observation) for agent, observation in finals.items()}
    return Turn(now, masks, rewards, terminated, truncated, finals, infos)


def each_agent(env: Env, view: Callable[[Space[Any]], T]) -> Lookup[AgentID, T]:
    """Return the view of each agent's space, also for agents that appear later; a refusal names the agent."""

    def ask(agent: AgentID) -> T:
        space = env.observation_spaces[agent]
        try:
            return view(space)
        except InputError as error:
            shown = " ".join(str(space).split())
            raise InputError(f"{error} In {env.spec.env_id}, '{agent}' sees {shown}.") from error

    return Lookup(ask, env.possible_agents)


def is_picture(space: Space[Any]) -> TypeGuard[Box]:
    """Return whether this is a Box of uint8 or floats, shaped (height, width) or (height, width, channels)."""
    if not isinstance(space, Box) or not (space.dtype == np.uint8 or np.issubdtype(space.dtype, np.floating)):
        return False
    # three planes of 210×160 are an image too, but not one whose last axis holds the channels
    channels_first = len(space.shape) == 3 and space.shape[0] <= 4 < space.shape[2]
    return len(space.shape) in (2, 3) and not channels_first
