"""Small envs whose agents are born, die and wait, for the tests of wrappers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from random import Random
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Box, Space

from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import Env, EnvFacts, EnvSpec

PONG = "butterfly/cooperative_pong"
TICTACTOE = "classic/tictactoe_v3"
PICTURE = Box(0, 255, (12, 10, 3), np.uint8)
FLOAT_PICTURE = Box(-1.0, 1.0, (9, 11, 3), np.float32)
VECTOR = Box(np.array([-2.0, 0.0, 5.0]), np.array([2.0, 1.0, 5.0]), dtype=np.float64)
NESTED = spaces.Dict({"place": spaces.Discrete(4, start=2), "hand": spaces.Tuple((VECTOR, spaces.MultiBinary(3)))})


class Nursery:
    """Agents that nobody named ahead: `a` and `b` start, `c` is born at step 2, `a` is terminated at step 3,
    `b` and `c` are truncated at step 6. `c` may only do 0 or 1."""

    def __init__(self, space: Space[Any] = PICTURE) -> None:
        self.possible_agents: tuple[AgentID, ...] = ()
        self.observation_spaces: Mapping[AgentID, Space[Any]] = Lookup(lambda agent: deepcopy(space))
        self.action_spaces: Mapping[AgentID, Space[Any]] = Lookup(lambda agent: spaces.Discrete(3))
        self.spec = EnvSpec(EnvFacts(), (), self.observation_spaces, self.action_spaces)
        self.agents: tuple[AgentID, ...] = ()
        self.closed = 0
        self._space, self._steps = deepcopy(space), 0

    def reset(self, seed: int | None = None) -> Turn:
        self._space.seed(seed)
        self._steps, self.agents = 0, ("a", "b")
        return self._turn({"a": 0.0, "b": 0.0})

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        assert tuple(actions) == self.agents
        self._steps += 1
        paid = {agent: self._steps * (actions[agent] - 1.0) for agent in self.agents}
        match self._steps:
            case 2:
                return self._turn({**paid, "c": 0.0})
            case 3:
                return self._turn(paid, terminated="a")
            case 6:
                return self._turn(paid, truncated="bc")
        return self._turn(paid)

    def _turn(self, rewards: dict[AgentID, float], terminated: str = "", truncated: str = "") -> Turn:
        self.agents = tuple(agent for agent in rewards if agent not in terminated + truncated)
        return Turn(
            {agent: self._space.sample() for agent in self.agents},
            {"c": np.array([True, True, False])} if "c" in self.agents else {},
            rewards,
            {agent: agent in terminated for agent in rewards},
            {agent: agent in truncated for agent in rewards},
            {agent: self._space.sample() for agent in terminated + truncated},
            {agent: {"steps": self._steps} for agent in rewards},
        )

    def render(self) -> Any:
        return np.full((2, 2, 3), self._steps, np.uint8)

    def close(self) -> None:
        self.closed += 1


class Rotation(Nursery):
    """`a`, `b` and `c` have their turns one after another; all are terminated when `c` has had its second."""

    def __init__(self, space: Space[Any] = PICTURE) -> None:
        super().__init__(space)
        self.possible_agents = ("a", "b", "c")
        self.spec = EnvSpec(EnvFacts(turn_based=True), ("a", "b", "c"), self.observation_spaces, self.action_spaces)

    def reset(self, seed: int | None = None) -> Turn:
        self._space.seed(seed)
        self._steps, self.agents = 0, ("a", "b", "c")
        return self._rotated()

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        assert tuple(actions) == ("abc"[self._steps % 3],)
        self._steps += 1
        return self._rotated()

    def _rotated(self) -> Turn:
        over = self._steps == 6
        self.agents = () if over else ("a", "b", "c")
        acting = "" if over else "abc"[self._steps % 3]
        ends = dict.fromkeys("abc", over)
        return Turn(
            {agent: self._space.sample() for agent in acting},
            {},
            dict.fromkeys("abc", float(self._steps)),
            ends,
            dict.fromkeys("abc", False),
            {agent: self._space.sample() for agent in "abc" if over},
            {agent: {} for agent in acting or "abc"},
        )


class Player:
    """Uniform legal actions from a seed of its own."""

    def __init__(self, env: Env, seed: int) -> None:
        self._spaces, self._random = env.action_spaces, Random(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._draw(agent, turn) for agent in turn.observations}

    def _draw(self, agent: AgentID, turn: Turn) -> Action:
        space = self._spaces[agent]
        if isinstance(space, Box):
            share = np.array([self._random.random() for _ in range(math.prod(space.shape))]).reshape(space.shape)
            return (space.low + share * (space.high - space.low)).astype(space.dtype)
        assert isinstance(space, spaces.Discrete)
        mask = turn.action_masks.get(agent)
        legal = range(int(space.n)) if mask is None else np.flatnonzero(mask)
        return int(space.start) + int(self._random.choice(legal))


def play(env: Env, seed: int = 7, most: int = 10) -> list[Turn]:
    """The Turns of one episode, or of its beginning."""
    turns, player = [env.reset(seed)], Player(env, seed)
    while not turns[-1].over and len(turns) <= most:
        turns.append(env.step(player.act(turns[-1])))
    return turns


def lookups(turn: Turn) -> list[tuple[AgentID, Any]]:
    return [*turn.observations.items(), *turn.final_observations.items()]
