"""Env in which every agent's return reveals what the other agents played."""

from __future__ import annotations

from collections.abc import Mapping
from string import ascii_letters
from typing import Any

from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Turn
from mosaic.envs.env import EnvFacts, EnvSpec

STEPS, CHOICES = 4, 3
OTHERS_PAY = 10.0  # per point that another agent plays; an agent's own points pay 1
PLACE = "place"  # in infos: 1 for a, 2 for b …, in the last step; before it -1
CONSTANT = f"python:{__name__}:play_two"


def play_two(observation: object, mask: Mask | None) -> Action:
    """Play 2 always: a fixed policy that can be recognised in the other agents' returns."""
    return CHOICES - 1


class Duel:
    """Simultaneous env for agents `a`, `b`, … that lasts four steps (or `steps`); observations are the step number.

    With `ends` it ends after fewer steps, in the same spaces.

    An action is 0, 1 or 2 points. A step pays an agent its own points and ten times the points of all others, so that
    its return is known to lie in 80…88 if its one opponent always plays 2, whatever it does itself.
    """

    def __init__(self, agents: int = 2, steps: int = STEPS, ends: int | None = None) -> None:
        self._steps = min(steps, ends or steps)
        self.possible_agents: tuple[AgentID, ...] = tuple(ascii_letters[:agents])
        self.observation_spaces: Mapping[AgentID, Space[Any]] = {
            a: spaces.Discrete(steps + 1) for a in self.possible_agents
        }
        self.action_spaces: Mapping[AgentID, Space[Any]] = {a: spaces.Discrete(CHOICES) for a in self.possible_agents}
        facts = EnvFacts(duel(agents, steps))
        self.spec = EnvSpec(facts, self.possible_agents, self.observation_spaces, self.action_spaces)
        self.agents: tuple[AgentID, ...] = ()
        self._t = 0

    def reset(self, seed: int | None = None) -> Turn:
        self._t, self.agents = 0, self.possible_agents
        return self._turn(dict.fromkeys(self.agents, 0.0))

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if not self.agents:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if set(actions) != set(self.agents):
            raise ValueError(f"Actions for {sorted(actions)}, but {sorted(self.agents)} must act.")
        self._t += 1
        total = sum(actions.values())
        return self._turn({a: float(actions[a]) + OTHERS_PAY * (total - actions[a]) for a in self.agents})

    def _turn(self, rewards: Mapping[AgentID, float]) -> Turn:
        over = self._t == self._steps
        everybody, self.agents = self.agents, () if over else self.agents
        seen = dict.fromkeys(everybody, self._t)
        ended, lives = dict.fromkeys(everybody, over), dict.fromkeys(everybody, False)
        infos = {a: {PLACE: float(place) if over else -1.0} for place, a in enumerate(everybody, 1)}
        return Turn({} if over else seen, {}, rewards, ended, lives, seen if over else {}, infos)

    def render(self) -> None:
        return None

    def close(self) -> None:
        pass


def duel(agents: int = 2, steps: int = STEPS) -> EnvironmentConfig:
    """Return the configuration of a `Duel`."""
    options = {"agents": agents} | ({"steps": steps} if steps != STEPS else {})
    return EnvironmentConfig(family="python", env_id=f"{__name__}:Duel", options=options)
