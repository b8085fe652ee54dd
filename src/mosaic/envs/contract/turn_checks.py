"""What every Turn of an episode must say, given all that was said before."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn
from mosaic.envs.contract.errors import ContractError, Place
from mosaic.envs.contract.membership import why_outside
from mosaic.envs.env import Env
from mosaic.envs.spaces import parts_of


class Witness:
    """Sees one episode, Turn by Turn, and raises at the first broken promise."""

    def __init__(self, env: Env, seed: int | None) -> None:
        self._env = env
        self._alive: set[AgentID] = set()
        self._gone: set[AgentID] = set()
        self.place = Place(env.spec.env_id, seed, 0)

    def see(self, turn: Turn, step: int) -> None:
        self.place = Place(self.place.env_id, self.place.seed, step)
        self._names(turn)
        self._types(turn)
        if step == 0:
            self._beginning(turn)
        self._lives(turn)
        self._looks(turn)
        self._masks(turn)
        self._infos(turn)
        self._agents()

    def _names(self, turn: Any) -> None:
        if not isinstance(turn, Turn) or not all(isinstance(part, Mapping) for part in turn):
            self._broken(
                f"it answered with a {type(turn).__name__}",
                "reset and step answer with a Turn of mappings",
                "return mosaic.core.turn.Turn(...) with a dict in every field",
            )
        for field, part in zip(turn._fields, turn, strict=True):
            for agent in part:
                if not isinstance(agent, str):
                    self._broken(f"{field} calls an agent {agent!r}", "agents' names are str", "name agents with text")
        if not turn.rewards.keys() == turn.terminated.keys() == turn.truncated.keys():
            self._broken(
                f"rewards are for {sorted(turn.rewards)}, terminated for {sorted(turn.terminated)}, "
                f"truncated for {sorted(turn.truncated)}",
                "rewards, terminated and truncated name the same agents",
                "give all three for everybody who lived through the step or was born in it",
            )
        if self._env.possible_agents:
            self._nobody(
                turn.rewards.keys() - {*self._env.possible_agents},
                "it is not in possible_agents",
                "everybody who appears is in possible_agents, unless that is ()",
                "name it there, or make possible_agents () where agents cannot be named ahead",
            )

    def _types(self, turn: Any) -> None:
        for agent, reward in turn.rewards.items():
            if type(reward) is not float or not math.isfinite(reward):
                self._broken(
                    f"its reward is {reward!r} of type {type(reward).__name__}",
                    "rewards are finite Python floats",
                    "return float(reward)",
                    agent,
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
        promise = "after reset nobody has earned anything or ended, and somebody must act"
        for agent in turn.rewards:
            if turn.rewards[agent] or turn.ended(agent):
                self._broken(
                    f"its reward is {turn.rewards[agent]}, ended: {turn.ended(agent)}",
                    promise,
                    "let reset answer with 0.0 and False for everybody who is there",
                    agent,
                )
        if not turn.observations:
            self._broken("nobody acts", promise, "put the first agents to act into observations")

    def _lives(self, turn: Turn) -> None:
        here = turn.rewards.keys()
        self._nobody(
            self._alive - here,
            "it lived before this step and is not named any more",
            "living agents are in rewards, terminated and truncated after every step, also while they wait",
            "report it with its reward, and with terminated or truncated in the step in which it leaves",
        )
        self._nobody(
            self._gone & here,
            "it ended before and came back",
            "an agent that ended never comes back in its episode",
            "report an end once; give newcomers names of their own",
        )
        ended = {agent for agent in here if turn.ended(agent)}
        promise = "final_observations names exactly the agents that ended in this step, once"
        self._nobody(
            ended - turn.final_observations.keys(),
            "it ended without a final observation",
            promise,
            "give what it sees last",
        )
        self._nobody(
            turn.final_observations.keys() - ended,
            "it has a final observation without having ended",
            promise,
            "leave it out, or set terminated or truncated",
        )
        self._alive = here - ended
        self._gone |= ended
        self._nobody(
            turn.observations.keys() - self._alive,
            "it must act but does not live",
            "observations name living agents only",
            "leave ended and unknown agents out",
        )
        if turn.over and self._alive:
            self._broken(
                f"nobody acts although {sorted(self._alive)} have not ended",
                "observations are empty exactly when nobody is left",
                "end everybody when the episode ends, or let somebody act",
            )
        if self._env.spec.facts.turn_based and len(turn.observations) > 1:
            self._broken(
                f"{sorted(turn.observations)} act together",
                "in a turn-based env one agent acts at a time",
                "say turn_based=False in EnvFacts",
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
        self._nobody(
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

    def _infos(self, turn: Any) -> None:
        self._nobody(
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
                f"agents is {agents!r}, but {sorted(self._alive)} live",
                "agents is the tuple of the living",
                "update agents in reset and step",
            )

    def _nobody(self, agents: Iterable[AgentID], found: str, promise: str, advice: str) -> None:
        for agent in sorted(agents):
            self._broken(found, promise, advice, agent)

    def _broken(self, found: str, promise: str, advice: str, agent: AgentID | None = None) -> None:
        raise ContractError(self.place, found, promise, advice, agent)


def _why_no_mask(space: Any, mask: Any) -> str | None:
    code = parts_of(space)
    if code is None:
        return f"restricts a {type(space).__name__}"
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        return f"is of {getattr(mask, 'dtype', type(mask).__name__)}"
    if mask.shape != (sum(code.counts),):
        return f"has shape {mask.shape} instead of ({sum(code.counts)},)"
    parts = np.split(mask, np.cumsum(code.counts)[:-1])
    return None if all(part.any() for part in parts) else "allows nothing"
