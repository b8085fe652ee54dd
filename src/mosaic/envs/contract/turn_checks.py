"""Checks of every Turn of an episode, given the Turns before it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn
from mosaic.envs.adapters.upstream import quiet
from mosaic.envs.contract.report import CheckPosition, ContractError
from mosaic.envs.env import Env
from mosaic.envs.spaces import describe_space, parts_of

_Unchecked: TypeAlias = Any  # what a third-party env returned as its Turn


def why_outside(space: Space[object], value: object) -> str | None:
    """Return why the value is not a member of the space; None if it is."""
    match space:
        case spaces.Box():
            return _why_outside_box(space, value)
        case spaces.Dict():
            if not isinstance(value, dict) or value.keys() != space.spaces.keys():
                names = sorted(value) if isinstance(value, dict) else type(value).__name__
                return f"{names} instead of a dict with {sorted(space.spaces)}"
            return _first_part((f"[{key!r}]", part, value[key]) for key, part in space.spaces.items())
        case spaces.Tuple():
            if not isinstance(value, tuple) or len(value) != len(space.spaces):
                return f"{value!r} instead of a tuple of {len(space.spaces)}"
            parts = enumerate(zip(space.spaces, value, strict=True))
            return _first_part((f"[{index}]", part, item) for index, (part, item) in parts)
    with quiet():  # some spaces warn when asked about unusual values
        inside = space.contains(value)
    return None if inside else f"{_short(value)} of type {type(value).__name__} instead of {describe_space(space)}"


def _first_part(parts: Iterable[tuple[str, Space[object], object]]) -> str | None:
    for where, space, value in parts:
        why = why_outside(space, value)
        if why is not None:
            return f"in {where} {why}"
    return None


def _why_outside_box(space: spaces.Box, value: object) -> str | None:
    if not isinstance(value, np.ndarray | np.generic):
        return f"a {type(value).__name__} instead of a numpy array"
    if value.shape != space.shape:
        return f"shape {value.shape} instead of {space.shape}"
    if space.dtype is not None and not np.can_cast(value.dtype, space.dtype):
        return f"dtype {value.dtype} instead of {space.dtype}"
    outside = ~((value >= space.low) & (value <= space.high))  # also true of nan
    if outside.any():
        index = tuple(int(i) for i in np.argwhere(outside)[0])
        number, low, high = np.asarray(value)[index], space.low[index], space.high[index]
        return f"{number} at {list(index)}, outside {low}..{high}"
    return None


def _short(value: object, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}…"


class TurnChecker:
    """Checker of one episode, Turn by Turn; raises at the first violation."""

    def __init__(self, env: Env, seed: int | None) -> None:
        self._env = env
        self._alive: set[AgentID] = set()
        self._gone: set[AgentID] = set()
        self.place = CheckPosition(env.spec.env_id, seed, 0)

    def see(self, turn: Turn, step: int) -> None:
        self.place = CheckPosition(self.place.env_id, self.place.seed, step)
        self._names(turn)
        self._types(turn)
        if step == 0:
            self._beginning(turn)
        self._lives(turn)
        self._looks(turn)
        self._masks(turn)
        self._infos(turn)
        self._agents()

    def _names(self, turn: _Unchecked) -> None:
        if not isinstance(turn, Turn) or not all(isinstance(part, Mapping) for part in turn):
            self._broken(
                f"it returned a {type(turn).__name__}",
                "reset and step return a Turn of mappings",
                "return mosaic.core.turn.Turn(...) with a dict in every field",
            )
        for field, part in zip(turn._fields, turn, strict=True):
            for agent in part:
                if not isinstance(agent, str):
                    self._broken(f"{field} calls an agent {agent!r}", "agents' names are str", "use strings as names")
        if not turn.rewards.keys() == turn.terminated.keys() == turn.truncated.keys():
            self._broken(
                f"rewards are for {sorted(turn.rewards)}, terminated for {sorted(turn.terminated)}, "
                f"truncated for {sorted(turn.truncated)}",
                "rewards, terminated and truncated name the same agents",
                "give all three for every agent that lived through the step or joined in it",
            )
        if self._env.possible_agents:
            self._require_none(
                turn.rewards.keys() - {*self._env.possible_agents},
                "it is not in possible_agents",
                "every agent that appears is in possible_agents, unless that is ()",
                "add it there, or make possible_agents () if agents are not known in advance",
            )

    def _types(self, turn: _Unchecked) -> None:
        for agent, reward in turn.rewards.items():
            if type(reward) is not float or not math.isfinite(reward):
                self._broken(
                    f"its reward is {reward!r} of type {type(reward).__name__}",
                    "rewards are finite Python floats",
                    "return float(reward)",
                    agent,
                )
        if self._env.spec.facts.shared_reward and len(set(turn.rewards.values())) > 1:
            self._broken(
                f"the rewards are {turn.rewards}",
                "where shared_reward is declared, all agents get the same reward in every step",
                "declare shared_reward=False, or give all agents the sum or the mean",
            )
        for field, flags in (("terminated", turn.terminated), ("truncated", turn.truncated)):
            for agent, flag in flags.items():
                if type(flag) is not bool:
                    self._broken(
                        f"{field} is {flag!r} of type {type(flag).__name__}",
                        "terminated and truncated are Python bools",
                        "return bool(flag)",
                        agent,
                    )

    def _beginning(self, turn: Turn) -> None:
        promise = "after reset no agent has a reward or has ended, and at least one must act"
        for agent in turn.rewards:
            if turn.rewards[agent] or turn.ended(agent):
                self._broken(
                    f"its reward is {turn.rewards[agent]}, ended: {turn.ended(agent)}",
                    promise,
                    "let reset return 0.0 and False for every agent",
                    agent,
                )
        if not turn.observations:
            self._broken("no agent acts", promise, "put the first agents to act into observations")

    def _lives(self, turn: Turn) -> None:
        here = turn.rewards.keys()
        self._require_none(
            self._alive - here,
            "it lived before this step and is now missing",
            "living agents are in rewards, terminated and truncated after every step, even while they wait",
            "report it with its reward, and with terminated or truncated in the step in which it leaves",
        )
        self._require_none(
            self._gone & here,
            "it ended before and came back",
            "an agent that ended never comes back in its episode",
            "report an end once; give new agents new names",
        )
        ended = {agent for agent in here if turn.ended(agent)}
        promise = "final_observations names exactly the agents that ended in this step, once"
        self._require_none(
            ended - turn.final_observations.keys(),
            "it ended without a final observation",
            promise,
            "return its last observation",
        )
        self._require_none(
            turn.final_observations.keys() - ended,
            "it has a final observation without having ended",
            promise,
            "leave it out, or set terminated or truncated",
        )
        self._alive = here - ended
        self._gone |= ended
        self._require_none(
            turn.observations.keys() - self._alive,
            "it must act but is not alive",
            "observations name living agents only",
            "leave ended and unknown agents out",
        )
        if turn.over and self._alive:
            self._broken(
                f"no agent acts although {sorted(self._alive)} have not ended",
                "observations are empty exactly when no agent is left",
                "end all agents when the episode ends, or let at least one act",
            )
        if self._env.spec.facts.turn_based and len(turn.observations) > 1:
            self._broken(
                f"{sorted(turn.observations)} act together",
                "in a turn-based env one agent acts at a time",
                "set turn_based=False in EnvFacts",
            )

    def _looks(self, turn: Turn) -> None:
        for field, part in (("observation", turn.observations), ("final observation", turn.final_observations)):
            for agent, observation in part.items():
                why = why_outside(self._env.observation_spaces[agent], observation)
                if why is not None:
                    self._broken(
                        f"its {field} is {why}",
                        "observations are members of the agent's observation space",
                        "change the observation or the space",
                        agent,
                    )

    def _masks(self, turn: Turn) -> None:
        self._require_none(
            turn.action_masks.keys() - turn.observations.keys(),
            "it has a mask but does not act",
            "action_masks are for acting agents only",
            "leave the mask out",
        )
        for agent, mask in turn.action_masks.items():
            why = _why_no_mask(self._env.action_spaces[agent], mask)
            if why is not None:
                self._broken(
                    f"its mask {why}",
                    "a mask holds one bool per Discrete action (or per choice of each part), at least one of them True",
                    "build it with np.array(..., dtype=np.bool_)",
                    agent,
                )

    def _infos(self, turn: _Unchecked) -> None:
        self._require_none(
            turn.infos.keys() - turn.observations.keys() - turn.final_observations.keys(),
            "it has an info but neither acts nor ended",
            "infos are for acting and ended agents",
            "leave the info out",
        )
        for agent, info in turn.infos.items():
            if not isinstance(info, Mapping):
                self._broken(f"its info is a {type(info).__name__}", "infos are mappings", "give a dict", agent)

    def _agents(self) -> None:
        agents = self._env.agents
        if not isinstance(agents, tuple) or len(agents) != len(self._alive) or {*agents} != self._alive:
            self._broken(
                f"agents is {agents!r}, but {sorted(self._alive)} are alive",
                "agents is the tuple of living agents",
                "update agents in reset and step",
            )

    def _require_none(self, agents: Iterable[AgentID], found: str, promise: str, advice: str) -> None:
        for agent in sorted(agents):
            self._broken(found, promise, advice, agent)

    def _broken(self, found: str, promise: str, advice: str, agent: AgentID | None = None) -> None:
        raise ContractError(self.place, found, promise, advice, agent)


def _why_no_mask(space: Space[object], mask: object) -> str | None:
    code = parts_of(space)
    if code is None:
        return f"restricts a {type(space).__name__}"
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        return f"is of {getattr(mask, 'dtype', type(mask).__name__)}"
    if mask.shape != (sum(code.counts),):
        return f"has shape {mask.shape} instead of ({sum(code.counts)},)"
    parts = np.split(mask, np.cumsum(code.counts)[:-1])
    return None if all(part.any() for part in parts) else "allows nothing"
