"""Small envs in which every number is known."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from string import ascii_letters
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvFacts, EnvSpec

_EPISODES = 9  # observations repeat after this many episodes


class Toy:
    """Base of envs whose three actions change nothing, so that a test may play anything and still know every number.

    `t` counts env steps. An acting agent sees `10 * episode + t`, an ended one `90 + t`. The episode's number is the
    seed modulo 9; without a seed it is one more than before.
    """

    def __init__(self, agents: Iterable[AgentID], facts: EnvFacts) -> None:
        self.possible_agents: tuple[AgentID, ...] = tuple(agents)
        self.observation_spaces: Mapping[AgentID, Space[Any]] = {a: spaces.Discrete(100) for a in self.possible_agents}
        self.action_spaces: Mapping[AgentID, Space[Any]] = {a: spaces.Discrete(3) for a in self.possible_agents}
        self.spec = EnvSpec(facts, self.possible_agents, self.observation_spaces, self.action_spaces)
        self.agents: tuple[AgentID, ...] = ()
        self.t = 0
        self._episode = -1
        self._acting: tuple[AgentID, ...] = ()

    def reset(self, seed: int | None = None) -> Turn:
        self._episode = (self._episode + 1 if seed is None else seed) % _EPISODES
        self.t = 0
        return self._first()

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if not self._acting:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if set(actions) != set(self._acting):
            raise ValueError(f"Actions for {sorted(actions)}, but {sorted(self._acting)} must act.")
        self.t += 1
        return self._next()

    def render(self) -> NDArray[np.uint8] | None:
        return np.full((4, 6, 3), 10 * self._episode + self.t, np.uint8)

    def close(self) -> None:
        pass

    def _first(self) -> Turn:
        raise NotImplementedError

    def _next(self) -> Turn:
        raise NotImplementedError

    def _turn(
        self, acting: str, rewards: Mapping[AgentID, float], *, terminated: str = "", truncated: str = ""
    ) -> Turn:
        """Build a turn; agents have one-letter names, so a string is a list of agents."""
        self._acting = tuple(acting)
        self.agents = tuple(agent for agent in rewards if agent not in terminated + truncated)
        return Turn(
            dict.fromkeys(acting, 10 * self._episode + self.t),
            {},
            rewards,
            {agent: agent in terminated for agent in rewards},
            {agent: agent in truncated for agent in rewards},
            {agent: 90 + self.t for agent in rewards if agent in terminated + truncated},
            {agent: {} for agent in rewards if agent in acting + terminated + truncated},
        )


class Alternating(Toy):
    """Turn-based env of x and o: step `t` pays `t` to the agent that waited; o's second move ends the episode, pays o 1
    and costs x 5.

    Returns: x −3 (2 − 5), o 5 (1 + 3 + 1). o's first 1 comes before any move of its own.
    """

    def __init__(self) -> None:
        config = EnvironmentConfig(family="python", env_id="mosaic.testing.toys:Alternating")
        super().__init__("xo", EnvFacts(config, turn_based=True, competitive=True))

    def _first(self) -> Turn:
        return self._turn("x", {"x": 0.0, "o": 0.0})

    def _next(self) -> Turn:
        if self.t == 4:
            return self._turn("", {"x": -5.0, "o": 1.0}, terminated="xo")
        waited = "xo"[self.t % 2]
        return self._turn(waited, {agent: float(self.t) if agent == waited else 0.0 for agent in "xo"})


class Fading(Toy):
    """Simultaneous env whose agents come and go: step `t` pays each agent `t`; a and b start, c appears in step 1 and
    gets 0.

    a is terminated in step 2; step 4 truncates b and terminates c. Returns: a 3, b 10, c 9.
    """

    def __init__(self) -> None:
        super().__init__("abc", EnvFacts(EnvironmentConfig(family="python", env_id="mosaic.testing.toys:Fading")))

    def _first(self) -> Turn:
        return self._turn("ab", {"a": 0.0, "b": 0.0})

    def _next(self) -> Turn:
        match self.t:
            case 1:
                return self._turn("abc", {"a": 1.0, "b": 1.0, "c": 0.0})
            case 2:
                return self._turn("bc", {"a": 2.0, "b": 2.0, "c": 2.0}, terminated="a")
            case 3:
                return self._turn("bc", {"b": 3.0, "c": 3.0})
        return self._turn("", {"b": 4.0, "c": 4.0}, truncated="b", terminated="c")


class Uneven(Toy):
    """Env of a and b that lasts nine steps: a ends in step 3 with 0; b is paid 1 for each action and 1 at the end.

    Returns: a 0, b 10. Turn-based, a acts in the steps 1 and 3 and b in the others: a 0, b 8. With `a_ends` 1, a has
    ended before b acts at all: a 0, b 9.
    """

    STEPS = 9

    def __init__(self, turn_based: bool = False, a_ends: int = 3) -> None:
        super().__init__("ab", EnvFacts(uneven(turn_based=turn_based, a_ends=a_ends), turn_based=turn_based))
        self._a_ends = a_ends

    def _first(self) -> Turn:
        return self._turn(self._next_to_act(), {"a": 0.0, "b": 0.0})

    def _next(self) -> Turn:
        paid = float("b" in self._acting)
        if self.t == self.STEPS:
            return self._turn("", {"b": paid + 1.0}, terminated="b")
        rewards = {"a": 0.0, "b": paid} if self.t <= self._a_ends else {"b": paid}
        return self._turn(self._next_to_act(), rewards, terminated="a" if self.t == self._a_ends else "")

    def _next_to_act(self) -> str:
        if self.t >= self._a_ends:
            return "b"
        return "ab"[self.t % 2] if self.spec.facts.turn_based else "ab"


def uneven(*, turn_based: bool = False, a_ends: int = 3) -> EnvironmentConfig:
    """Return the configuration of an `Uneven`."""
    options: dict[str, object] = {"turn_based": True} if turn_based else {}
    if a_ends != 3:
        options["a_ends"] = a_ends
    return EnvironmentConfig(family="python", env_id=f"{__name__}:Uneven", options=options)


MOST_AGENTS = len(ascii_letters)
_ENV_ID = "mosaic.testing.toys:Crowd"


class Crowd(Toy):
    """Simultaneous env with any number of agents: each of four steps pays 1 to each, and the last truncates all."""

    def __init__(self, agents: int = 2) -> None:
        super().__init__(ascii_letters[:agents], EnvFacts(crowd(agents)))

    def _first(self) -> Turn:
        return self._turn("".join(self.possible_agents), dict.fromkeys(self.possible_agents, 0.0))

    def _next(self) -> Turn:
        everybody = "".join(self.possible_agents)
        rewards = dict.fromkeys(self.possible_agents, 1.0)
        return self._turn("", rewards, truncated=everybody) if self.t == 4 else self._turn(everybody, rewards)


def crowd(agents: int) -> EnvironmentConfig:
    """Return the configuration of a `Crowd`."""
    return EnvironmentConfig(family="python", env_id=_ENV_ID, options={"agents": agents})
